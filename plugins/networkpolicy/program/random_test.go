package program_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
)

// agree compares program and reference for all pods and some other addresses.
func agree(t testing.TB, c *program.Cluster, p *program.Program) {
	t.Helper()
	for four, others := range map[bool][]string{true: {"192.0.2.1", "10.244.1.200", "10.244.2.201", "224.0.0.1", "255.255.255.255"}, false: {"2001:db8::1", "fd00:1::99", "fd00:2::77", "fe80::7", "ff02::1"}} {
		var all []netip.Addr
		for _, pod := range c.Pods {
			for _, a := range pod.Addresses {
				if a.Is4() == four {
					all = append(all, a)
				}
			}
		}
		for _, text := range others {
			all = append(all, netip.MustParseAddr(text))
		}
		for _, source := range all {
			for _, destination := range all {
				for _, protocol := range []uint8{program.TCP, program.UDP, program.SCTP} {
					for port := uint16(79); port <= 84; port++ {
						k := truth.Packet{Source: source, Destination: destination, Protocol: protocol, Port: port}
						if port%2 == 0 {
							k.Bridge = truth.Bridge
						}
						if want, got := truth.Allowed(c, k), truth.Passes(t, p, k); want != got {
							text := ""
							for _, p := range c.Policies {
								text += fmt.Sprintf("%s/%s %v\n", p.Namespace, p.Name, p.Spec.String())
							}
							t.Fatalf("%+v passes: %t, want %t\n%s", k, got, want, text)
						}
					}
				}
			}
		}
	}
}

// FuzzPolicies: what is compiled lets pass what the reference allows, for policies made by
// chance; and the changes from one program to the next lead there.
func FuzzPolicies(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := truth.Chance{Rand: rand.New(rand.NewPCG(seed, 1))}
		c := truth.World()
		now := &program.Program{Sets: map[string]*program.Set{}, Chains: map[string][]program.Rule{}}
		for step := range 4 {
			c.Policies = nil
			for i := range r.IntN(5) {
				c.Policies = append(c.Policies, r.Policy(i))
			}
			pod := c.Pods[r.IntN(len(c.Pods))] // a label that flaps
			pod.Labels = map[string]string{"pod": r.One("x", "y", "z")}
			next := program.Compile(c)
			now = follow(t, now, next)
			if !slices.Equal(names(now), names(next)) {
				t.Fatalf("step %d: changes lead to %v, want %v", step, names(now), names(next))
			}
			if step%2 == 1 {
				agree(t, c, now)
			}
		}
	})
}

func names(p *program.Program) []string {
	return slices.Concat(slices.Sorted(maps.Keys(p.Chains)), slices.Sorted(maps.Keys(p.Sets)))
}

// follow carries changes out as the packet filter does, which refuses what is in use.
func follow(t *testing.T, old, next *program.Program) *program.Program {
	t.Helper()
	c := program.ChangesOf(old, next)
	out := &program.Program{Sets: map[string]*program.Set{}, Chains: maps.Clone(old.Chains)}
	for name, set := range old.Sets {
		out.Sets[name] = &program.Set{Family: set.Family, Kind: set.Kind, Elements: maps.Clone(set.Elements)}
	}
	for _, name := range c.NewChains {
		out.Chains[name] = nil
	}
	for _, name := range c.NewSets {
		out.Sets[name] = &program.Set{Family: next.Sets[name].Family, Kind: next.Sets[name].Kind, Elements: maps.Clone(next.Sets[name].Elements)}
	}
	for _, change := range c.Sets {
		for _, key := range change.Gone {
			if _, had := out.Sets[change.Name].Elements[key]; !had {
				t.Fatalf("element %x of %s is deleted and was not there", key, change.Name)
			}
			delete(out.Sets[change.Name].Elements, key)
		}
		for _, key := range change.New {
			if _, has := out.Sets[change.Name].Elements[key]; has {
				t.Fatalf("element %x of %s is there already", key, change.Name)
			}
			out.Sets[change.Name].Elements[key] = next.Sets[change.Name].Elements[key]
		}
		if next.Sets[change.Name].Kind == program.Ranges {
			t.Fatalf("ranges of %s change", change.Name)
		}
	}
	for _, name := range c.ChangedChains {
		out.Chains[name] = next.Chains[name]
	}
	for _, name := range c.OldChains {
		out.Chains[name] = nil
	}
	for _, name := range slices.Concat(c.OldSets, c.OldChains) {
		for chain, rules := range out.Chains {
			for _, r := range rules {
				if slices.Contains([]string{r.Target, r.Source, r.Destination, r.Socket, r.Pair, r.Unless}, name) {
					t.Fatalf("%s is deleted while chain %s has a rule about it", name, chain)
				}
			}
		}
		for set, s := range out.Sets {
			for _, value := range s.Elements {
				if s.Kind == program.Chains && value == name {
					t.Fatalf("chain %s is deleted while %s leads to it", name, set)
				}
			}
		}
		delete(out.Chains, name)
		delete(out.Sets, name)
	}
	return out
}

// BenchmarkCompile: a thousand policies, and as many pods of which a hundred are here.
func BenchmarkCompile(b *testing.B) {
	c := truth.Large(1000, 1000, 100)
	for b.Loop() {
		program.Compile(c)
	}
}
