package truth

import (
	"net/netip"
	"testing"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Passes runs a program as the packet filter does.
func Passes(t testing.TB, p *program.Program, k Packet) bool {
	t.Helper()
	for _, base := range []string{program.Egress, program.Ingress} {
		if _, made := p.Chains[base]; made && run(t, p, base, base, k, 0) == program.Drop {
			return false
		}
	}
	return true
}

// run returns Accept, Drop, or 0 at the end of the chain.
func run(t testing.TB, p *program.Program, base, chain string, k Packet, depth int) program.Verdict {
	t.Helper()
	rules, made := p.Chains[chain]
	if !made || depth > 8 {
		t.Fatalf("chain %q is not there, or leads to itself", chain)
	}
	side := k.Source
	if base == program.Ingress {
		side = k.Destination
	}
	for _, r := range rules {
		if r.Match != program.Packet || !matches(t, p, &r, k, side) {
			continue
		}
		switch r.Verdict {
		case program.Accept, program.Drop:
			return r.Verdict
		case program.Jump:
			if v := run(t, p, base, r.Target, k, depth+1); v != 0 {
				return v
			}
		case program.Look:
			if to, has := p.Sets[r.Target].Elements[key(side)]; has {
				if v := run(t, p, base, to, k, depth+1); v != 0 {
					return v
				}
			}
		default:
			t.Fatalf("a rule of chain %s has no verdict: %+v", chain, r)
		}
	}
	return 0
}

func matches(t testing.TB, p *program.Program, r *program.Rule, k Packet, side netip.Addr) bool {
	t.Helper()
	family := familyOf(k.Source)
	if r.Family != program.Any && r.Family != family || r.Protocol != 0 && r.Protocol != k.Protocol {
		return false
	}
	if r.High != 0 && (k.Port < r.Low || k.Port > r.High) {
		return false
	}
	in := func(name, element string) bool {
		set := p.Sets[name]
		if set == nil {
			t.Fatalf("set %q of %+v is not there", name, r)
		}
		if set.Family != family {
			t.Fatalf("a rule of family %d asks set %s of family %d", family, name, set.Family)
		}
		if set.Kind == program.Ranges {
			for first, last := range set.Elements {
				if first <= element && element <= last {
					return true
				}
			}
			return false
		}
		_, has := set.Elements[element]
		return has
	}
	return (r.Source == "" || in(r.Source, key(k.Source))) &&
		(r.Destination == "" || in(r.Destination, key(k.Destination))) &&
		(r.Pair == "" || in(r.Pair, key(k.Source)+key(k.Destination))) &&
		(r.Socket == "" || in(r.Socket, key(k.Destination)+string([]byte{k.Protocol, byte(k.Port >> 8), byte(k.Port)}))) &&
		(!r.From.IsValid() || r.From.Contains(k.Source)) &&
		(!r.To.IsValid() || r.To.Contains(k.Destination)) &&
		(r.Bridge == "" || r.Bridge == k.Bridge) &&
		(!r.Within.IsValid() || r.Within.Contains(side)) &&
		(r.Unless == "" || !in(r.Unless, key(side)))
}

func key(a netip.Addr) string { return string(a.AsSlice()) }

func familyOf(a netip.Addr) program.Family {
	if a.Is4() {
		return program.IP4
	}
	return program.IP6
}
