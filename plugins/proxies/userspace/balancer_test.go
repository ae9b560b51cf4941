package userspace

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

func port(sticky time.Duration, ips ...string) *serviceport.Port {
	p := &serviceport.Port{ID: serviceport.ID{Name: proxy.Name{Namespace: "default", Name: "web"}, Port: "http", Protocol: "TCP"}, Sticky: sticky}
	for _, ip := range ips {
		p.Cluster = append(p.Cluster, serviceport.Endpoint{IP: ip, Port: 80})
	}
	return p
}

func picks(t *testing.T, b *balancer, p *serviceport.Port, client string, n int) []string {
	t.Helper()
	var out []string
	for range n {
		e, err := b.pick(list{p.ID, false}, client, false)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.IP)
	}
	return out
}

// LBR-2, LBR-7, LBR-10: round robin that passes no endpoint over.
func TestRoundRobin(t *testing.T) {
	b, p := newBalancer(), port(0, "a", "b", "c")
	b.update(p)
	if got, want := picks(t, b, p, "x", 6), []string{"a", "b", "c", "a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// LBR-3, LBR-5, LBR-6, LBR-8, LBR-9: a client sticks until its session expires.
func TestClientIPAffinity(t *testing.T) {
	now := time.Unix(0, 0)
	b, p := newBalancer(), port(serviceport.DefaultStickyTime, "a", "b")
	b.now = func() time.Time { return now }
	b.update(p)
	if got := picks(t, b, p, "x", 3); !slices.Equal(got, []string{"a", "a", "a"}) {
		t.Errorf("one client got %v", got)
	}
	if got := picks(t, b, p, "y", 1); got[0] != "b" {
		t.Errorf("the second client got %v", got)
	}
	now = now.Add(180*time.Minute - time.Second)
	if got := picks(t, b, p, "x", 1); got[0] != "a" {
		t.Errorf("within 180 minutes: %v", got)
	}
	now = now.Add(180 * time.Minute)
	if got := picks(t, b, p, "y", 1); got[0] != "a" {
		t.Errorf("after 180 minutes the next in turn is a, got %v", got)
	}
}

// LBR-12, LBR-13: a sticky client of an endpoint that is gone is moved.
func TestAffinityMovesFromRemovedEndpoint(t *testing.T) {
	b, p := newBalancer(), port(time.Hour, "a", "b")
	b.update(p)
	picks(t, b, p, "x", 1)
	b.update(port(time.Hour, "b"))
	if got := picks(t, b, p, "x", 2); !slices.Equal(got, []string{"b", "b"}) {
		t.Errorf("got %v", got)
	}
}

// LBR-11: an empty list is an answer, not a crash.
func TestNoEndpoints(t *testing.T) {
	b, p := newBalancer(), port(0)
	b.update(p)
	for _, id := range []serviceport.ID{p.ID, {}} {
		if _, err := b.pick(list{id, false}, "x", false); !errors.Is(err, errNoEndpoints) {
			t.Errorf("%v: %v", id, err)
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	b, p := newBalancer(), port(time.Hour, "a")
	b.update(p)
	for i := range maxClients + 10 {
		if _, err := b.pick(list{p.ID, false}, string(rune(i)), false); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.ports[list{p.ID, false}].clients); n > maxClients {
		t.Errorf("%d sessions", n)
	}
}
