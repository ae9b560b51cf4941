package conntrack

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
)

// TestForgetter: what was noted is deleted once, what fails is tried again, and what was noted while
// it failed is newer.
func TestForgetter(t *testing.T) {
	synctest.Test(t, forgetter) // a deletion takes no time, so that none waits for another
}

func forgetter(t *testing.T) {
	front := netip.MustParseAddrPort("10.96.0.10:53")
	to := func(text string) *Stale {
		s := NewStale()
		s.Add([]netip.Addr{front.Addr()}, int(front.Port()), 0, Serving{netip.MustParseAddrPort(text): true})
		return s
	}
	var asked []string
	var fail error
	var meanwhile *Stale
	var g *Forgetter
	g = ForgetterBy(func(f Family, gone *Stale) error {
		for endpoint := range gone.Fronts()[front] {
			asked = append(asked, f.String()+" "+endpoint.String())
		}
		if meanwhile != nil {
			g.Note(f, meanwhile)
		}
		return fail
	})
	step := func(name string, want ...string) {
		t.Helper()
		asked = nil
		g.Forget(slog.New(slog.DiscardHandler))
		if !slices.Equal(asked, want) {
			t.Errorf("%s: got %v, want %v", name, asked, want)
		}
	}
	step("nothing")
	g.Note(IPv6, to("10.0.0.6:53"))
	g.Note(IPv4, NewStale())
	g.Note(IPv4, to("10.0.0.1:53"))
	g.Note(IPv4, NewStale())
	step("first", "IPv4 10.0.0.1:53", "IPv6 10.0.0.6:53")
	step("once")
	g.Note(IPv4, to("10.0.0.1:53"))
	g.Note(IPv4, to("10.0.0.2:53"))
	fail, meanwhile = errors.New("busy"), to("10.0.0.3:53")
	step("the newer of two", "IPv4 10.0.0.2:53")
	fail, meanwhile = nil, nil
	step("what came meanwhile", "IPv4 10.0.0.3:53")
	step("once again")
	g.Note(IPv4, to("10.0.0.1:53"))
	fail = errors.New("busy")
	step("a fault", "IPv4 10.0.0.1:53")
	step("tried again", "IPv4 10.0.0.1:53")
	g.Start()
	step("after a new start")
}
