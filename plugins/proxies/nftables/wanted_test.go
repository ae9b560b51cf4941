package nftables

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/sdk/proxy"
)

// TestWhoHasAnAddress: of two services that want one address, a cluster IP stands before
// others' claims, a load balancer before an external IP, and else the one that came first. When
// it goes, the other has it.
func TestWhoHasAnAddress(t *testing.T) {
	victim, grab, late := proxy.Name{Namespace: "a", Name: "victim"}, proxy.Name{Namespace: "0", Name: "grab"}, proxy.Name{Namespace: "z", Name: "late"}
	service := func(name proxy.Name, clusterIP string, change func(*proxy.Service)) *proxy.Change {
		s := &proxy.Service{
			Name: &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}, ClusterIps: []string{clusterIP},
			Ports: []*proxy.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		}
		if change != nil {
			change(s)
		}
		return serviceSet(s)
	}
	var state proxy.State
	s := newSide(ipv4, settings{}, nil)
	k := newModel()
	if err := k.commit(ipv4, settings{}, transaction{layout: true}); err != nil {
		t.Fatal(err)
	}
	s.known, s.made = true, true
	step := func(changes ...*proxy.Change) {
		t.Helper()
		touched := state.Apply(&proxy.Diff{Generation: state.Generation + 1, Changes: changes})
		for _, name := range slices.SortedFunc(maps.Keys(touched), byName) {
			s.update(&state, name, "n", conntrack.NewStale())
		}
		if err := s.sync(k); err != nil || k.reads > 0 {
			t.Fatalf("%v, %d reads", err, k.reads)
		}
	}
	who := func(address string) string {
		t.Helper()
		want := "service-ips " + address + " tcp 80 → "
		for _, text := range texts(ipv4, k.tables[ipv4].elements) {
			if chain, ok := strings.CutPrefix(text, want); ok {
				return chain
			}
		}
		return ""
	}
	// The victim has two endpoints, grab one, late three: by the chain one sees whose it is.
	step(service(grab, "10.96.0.9", func(s *proxy.Service) { s.ExternalIps = []string{"10.96.0.1", "192.0.2.1"} }), endpointsSet(grab, "TCP", "10.0.0.1"))
	if got := who("10.96.0.1"); got != "outside-external-cluster-1" {
		t.Errorf("an address of nobody: %s", got)
	}
	step(service(victim, "10.96.0.1", nil), endpointsSet(victim, "TCP", "10.0.1.1", "10.0.1.2"))
	if got := who("10.96.0.1"); got != "service-cluster-2" {
		t.Errorf("an external IP took a cluster IP: %s", got)
	}
	step(service(late, "10.96.0.3", func(s *proxy.Service) { s.ExternalIps = []string{"192.0.2.1"} }), endpointsSet(late, "TCP", "10.0.2.1", "10.0.2.2", "10.0.2.3"))
	if got := who("192.0.2.1"); got != "outside-external-cluster-1" {
		t.Errorf("the later one took an external IP: %s", got)
	}
	step(service(late, "10.96.0.3", func(s *proxy.Service) { s.LoadBalancerIps = []string{"192.0.2.1"} }))
	if got := who("192.0.2.1"); got != "outside-external-cluster-3" {
		t.Errorf("an external IP stands before a load balancer: %s", got)
	}
	step(serviceRemove(victim)...)
	step(serviceRemove(late)...)
	if got, other := who("10.96.0.1"), who("192.0.2.1"); got != "outside-external-cluster-1" || other != got {
		t.Errorf("after the others went: %s and %s", got, other)
	}
	step(serviceRemove(grab)...)
	if left := texts(ipv4, k.tables[ipv4].elements); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// world draws a few services that share addresses and have all that services may have.
func world(r *rand.Rand, services int) map[proxy.Name][]*proxy.Change {
	out := map[proxy.Name][]*proxy.Change{}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	for i := range services {
		if r.IntN(4) == 0 {
			continue // it is not there
		}
		name := proxy.Name{Namespace: "d", Name: fmt.Sprint("s", i)}
		protocol := pick("TCP", "UDP", "SCTP")
		s := &proxy.Service{
			Name: &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}, ClusterIps: []string{fmt.Sprintf("10.96.0.%d", 1+i), fmt.Sprintf("fd00::%d", 1+i)},
			SessionAffinity: pick("None", "None", "ClientIP"), SessionAffinityTimeoutSeconds: int32(60 * r.IntN(3)),
			InternalTrafficPolicy: pick("Cluster", "Local"), ExternalTrafficPolicy: pick("Cluster", "Local"),
			Ports: []*proxy.ServicePort{{Name: "http", Protocol: protocol, Port: 80, NodePort: int32(r.IntN(2) * (30000 + i))}},
		}
		if r.IntN(3) == 0 {
			s.Ports = append(s.Ports, &proxy.ServicePort{Name: "more", Protocol: protocol, Port: 81})
		}
		for range r.IntN(3) {
			s.ExternalIps = append(s.ExternalIps, pick("192.0.2.1", "192.0.2.2", "10.96.0.1", "2001:db8::1"))
			s.LoadBalancerIps = append(s.LoadBalancerIps, pick("192.0.2.1", "192.0.2.3", "192.0.2.3", "nonsense"))
		}
		for range r.IntN(3) {
			s.LoadBalancerSourceRanges = append(s.LoadBalancerSourceRanges, pick("10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "::/0", "-"))
		}
		var endpoints []string
		for range r.IntN(5) {
			endpoints = append(endpoints, fmt.Sprintf("10.244.0.%d%s", 1+r.IntN(8), pick("", "*")))
		}
		out[name] = []*proxy.Change{serviceSet(s), endpointsSet(name, protocol, endpoints...)}
	}
	return out
}

// FuzzStates: from any state of the cluster to any other, what the proxy sends makes of the first
// table the second one, as if it had been written anew; the kernel takes it at once; and all
// that no port wants is pruned.
func FuzzStates(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed, uint8(6), uint8(6))
	}
	f.Fuzz(func(t *testing.T, seed uint64, first, second uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		var state proxy.State
		s, k := newSide(ipv4, settings{}, nil), newModel()
		for step, size := range []uint8{first % 12, second % 12, 0, first % 12} {
			now := world(r, int(size))
			var changes []*proxy.Change
			for name := range state.Services {
				if now[name] == nil {
					changes = append(changes, serviceRemove(name)...)
				}
			}
			for _, name := range slices.SortedFunc(maps.Keys(now), byName) {
				changes = append(changes, now[name]...)
			}
			touched := state.Apply(&proxy.Diff{Generation: uint64(step + 1), Reset_: step == 0, Changes: changes})
			for _, name := range slices.SortedFunc(maps.Keys(touched), byName) {
				s.update(&state, name, "n", conntrack.NewStale())
			}
			k.reads = 0
			made := s.made
			if err := s.sync(k); err != nil {
				t.Fatal(err)
			}
			if made && k.reads > 0 {
				t.Fatalf("step %d: the kernel refused what was sent:\n%v", step, k.history[len(k.history)-1])
			}
			anew, other := newSide(ipv4, settings{}, nil), newModel()
			for _, name := range slices.SortedFunc(maps.Keys(state.Services), byName) {
				anew.update(&state, name, "n", conntrack.NewStale())
			}
			if err := anew.sync(other); err != nil {
				t.Fatal(err)
			}
			if anew.idle() {
				other.tables[ipv4] = &modelTable{} // an idle table that was in use is empty
			}
			if k.tables[ipv4] == nil {
				continue // not in use yet
			}
			got, want := texts(ipv4, k.tables[ipv4].elements), texts(ipv4, other.tables[ipv4].elements)
			contested := func(text string) bool { // whose it is depends on who came first
				return strings.Contains(text, "192.0.2.") || strings.Contains(text, "outside") || strings.Contains(text, "10.96.0.1 ")
			}
			same(t, fmt.Sprintf("seed %d, step %d", seed, step), slices.DeleteFunc(slices.Clone(got), contested), slices.DeleteFunc(slices.Clone(want), contested))
			if len(got) != len(want) {
				t.Fatalf("seed %d, step %d: %d elements, anew %d", seed, step, len(got), len(want))
			}
			if err := s.prune(k); err != nil {
				t.Fatal(err)
			}
			for name, c := range k.tables[ipv4].chains {
				if s.wanted.chains[name].chain != c {
					t.Fatalf("seed %d, step %d: chain %s is %+v, want %+v", seed, step, name, c, s.wanted.chains[name])
				}
			}
			if len(k.tables[ipv4].chains) != len(s.wanted.chains) {
				t.Fatalf("seed %d, step %d: %d chains, want %d", seed, step, len(k.tables[ipv4].chains), len(s.wanted.chains))
			}
		}
	})
}
