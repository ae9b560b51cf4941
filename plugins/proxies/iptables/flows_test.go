package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// paper are tools that take everything, or nothing.
type paper struct{ refuse error }

func (p *paper) save(context.Context, string) (string, error)           { return "", nil }
func (p *paper) restore(context.Context, []byte) error                  { return p.refuse }
func (p *paper) has(context.Context, string, string, []string) bool     { return true }
func (p *paper) insert(context.Context, string, string, []string) error { return nil }
func (p *paper) remove(context.Context, string, string, []string) error { return nil }
func (p *paper) randomFully(context.Context) bool                       { return false }

// TestFlowsWait: UDP flows are forgotten in one pass, when the rules are there that replace
// them, also where that took a second try, and without the lock by which others wait.
func TestFlowsWait(t *testing.T) {
	synctest.Test(t, flowsWait) // looking for flows takes no time, so that none waits for another
}

func flowsWait(t *testing.T) {
	k := &paper{}
	p := New()
	p.commands, p.proc = k, t.TempDir()
	var forgotten []string
	passes := 0
	var fail error
	p.flows = conntrack.ForgetterBy(func(_ conntrack.Family, gone *conntrack.Stale) error {
		passes++
		if !p.mu.TryLock() {
			t.Error("the state is locked while flows are deleted")
			return nil
		}
		p.mu.Unlock()
		for _, front := range slices.SortedFunc(maps.Keys(gone.Fronts()), netip.AddrPort.Compare) {
			forgotten = append(forgotten, fmt.Sprintf("%s %d", front, len(gone.Fronts()[front])))
		}
		return fail
	})
	if err := p.Start(t.Context(), proxy.Options{NodeName: "n", StateDirectory: t.TempDir(), Config: []byte(`{"healthzBindAddress":""}`), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(context.WithoutCancel(t.Context()), false); err != nil {
			t.Error(err)
		}
	}()
	generation := uint64(0)
	name := &proxy.ServiceName{Namespace: "d", Name: "s"}
	apply := func(reset bool, ips ...string) error {
		generation++
		var list []*proxy.Endpoint
		for _, ip := range ips {
			list = append(list, &proxy.Endpoint{Ip: ip, Port: 5353, Ready: true, Serving: true})
		}
		changes := []*proxy.Change{{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
			Name: name, Ports: []*proxy.PortEndpoints{{PortName: "dns", Protocol: "UDP", Endpoints: list}},
		}}}}
		if reset {
			changes = append(changes, &proxy.Change{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{
				Name: name, ClusterIps: []string{"10.96.0.10"}, ExternalIps: []string{"192.0.2.1"}, Ports: []*proxy.ServicePort{{Name: "dns", Protocol: "UDP", Port: 53}},
			}}})
		}
		return p.Apply(t.Context(), &proxy.Diff{Generation: generation, Reset_: reset, Changes: changes})
	}
	for _, step := range []struct {
		name   string
		refuse error
		ips    []string
		passes int
		want   []string
	}{
		{"at first", nil, []string{"10.244.0.1"}, 1, []string{"10.96.0.10:53 1", "192.0.2.1:53 1"}},
		{"without a change", nil, []string{"10.244.0.1"}, 0, nil},
		{"before the rules are there", errors.New("busy"), []string{"10.244.0.2", "10.244.0.3"}, 0, nil},
		{"after a second try", nil, []string{"10.244.0.2", "10.244.0.3"}, 1, []string{"10.96.0.10:53 2", "192.0.2.1:53 2"}},
		{"nobody serves", nil, nil, 0, nil},
	} {
		k.refuse, forgotten, passes = step.refuse, nil, 0
		if err := apply(step.name == "at first", step.ips...); !errors.Is(err, step.refuse) {
			t.Errorf("%s: %v", step.name, err)
		}
		if !slices.Equal(forgotten, step.want) || passes != step.passes {
			t.Errorf("%s: in %d passes %v, want %d and %v", step.name, passes, forgotten, step.passes, step.want)
		}
	}
	// What could not be forgotten is with the next look, once.
	fail = errors.New("there are more")
	if err := apply(false, "10.244.0.9"); err != nil {
		t.Error(err)
	}
	for _, want := range []int{1, 0} {
		fail, forgotten, passes = nil, nil, 0
		p.resync(t.Context())
		if passes != want || len(forgotten) != 2*want {
			t.Errorf("with the next look: in %d passes %v, want %d", passes, forgotten, want)
		}
	}
}
