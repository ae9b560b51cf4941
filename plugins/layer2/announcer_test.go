package layer2

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pintle.dev/pintle/sdk/proxy"
)

// TestNoInterface: where no interface can be used the plugin stays Ready and says why, so that
// it is not started again; the log has the fault once, and its end.
func TestNoInterface(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "192.0.2.77", "::1", "2001:db8::77"} { // lo's, and none's
		var log bytes.Buffer
		a := New()
		r := &run{Announcer: a}
		r.four, r.six = linksOf([]string{ip}, slog.New(slog.NewTextHandler(&log, nil)))
		l := r.four
		if l == nil {
			l = r.six
		}
		a.running = r
		for range 5 {
			r.follow(t.Context())
			r.report()
			if l.session != nil {
				t.Fatalf("%s: a session on %s", ip, l.place.ifi.Name)
			}
			if status := a.Status(); !status.Ready || !strings.Contains(status.Message, ip) {
				t.Errorf("%s: %+v", ip, status)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%s: %d lines:\n%s", ip, n, log.String())
		}
		l.works("answers for 1 address")
		l.works("answers for 2 addresses")
		l.fault(errors.New("one more"))
		if n := strings.Count(log.String(), "\n"); n != 3 || !strings.Contains(log.String(), "announced again") {
			t.Errorf("%s: %d lines:\n%s", ip, n, log.String())
		}
	}
}

// TestBothLinks: a fault of one family is said beside what the other does.
func TestBothLinks(t *testing.T) {
	a := New()
	r := &run{Announcer: a}
	r.four, r.six = linksOf([]string{"fe80::1", "2001:db8::1", "192.0.2.1", "2001:db8::2"}, slog.New(slog.DiscardHandler))
	if r.four.ip.String() != "192.0.2.1" || r.six.ip.String() != "2001:db8::1" {
		t.Fatalf("links of %s and %s", r.four.ip, r.six.ip)
	}
	a.running = r
	r.four.works("answers for 1 address")
	r.six.fault(errors.New("the cable is out"))
	r.report()
	if got := a.Status().Message; got != "answers for 1 address; not announced: the cable is out" {
		t.Error(got)
	}
	r.six.works("answers for 2 addresses")
	r.report()
	if got := a.Status().Message; got != "answers for 1 address; answers for 2 addresses" {
		t.Error(got)
	}
}

// TestNoAddress: a node without an address of a network is started once, announces nothing
// and says so.
func TestNoAddress(t *testing.T) {
	var log bytes.Buffer
	a := New()
	options := proxy.Options{NodeName: "a", NodeIPs: []string{"fe80::1"}, APISocket: "/nowhere", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if err := a.Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if status := a.Status(); !status.Ready || !strings.Contains(status.Message, "no IP address of a network") {
		t.Errorf("%+v", status)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	if err := a.Stop(t.Context(), true); err != nil || a.Status().Ready {
		t.Errorf("stopped: %v, %+v", err, a.Status())
	}
}

// TestGathered: changes without an end are followed as often as they gather.
func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered()
		each := time.NewTicker(settle / 2)
		defer each.Stop()
		looks := 0
		for end := time.After(100 * settle); ; {
			select {
			case <-end:
				if looks < 40 || looks > 101 {
					t.Errorf("%d looks in %s", looks, 100*settle)
				}
				return
			case <-each.C:
				g.add()
			case <-g.timer.C:
				g.pending = false
				looks++
			}
		}
	})
}
