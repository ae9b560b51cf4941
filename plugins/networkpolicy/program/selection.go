package program

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"slices"
)

// families are those that a program can have, in the order in which arrays by family have them.
var families = [2]Family{IP4, IP6}

func indexOf(f Family) int {
	if f == IP4 {
		return 0
	}
	return 1
}

// sum says what a set of keys is, whatever order they come in. It is the same for equal sets;
// for others it differs, but for a chance of one in 2^128 that nobody can choose: the seeds
// are the process's own.
type sum struct {
	a, b uint64
	n    int
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(key string) sum {
	return sum{maphash.String(seeds[0], key), maphash.String(seeds[1], key), 1}
}

func (s sum) plus(o sum) sum  { return sum{s.a + o.a, s.b + o.b, s.n + o.n} }
func (s sum) minus(o sum) sum { return sum{s.a - o.a, s.b - o.b, s.n - o.n} }

// member is one selector of peers: of pods in one namespace, or of pods in those namespaces
// that a selector matches.
type member struct {
	namespace string
	across    bool
	of, pods  selector
}

func (m *member) matches(labels map[string]map[string]string, p *Pod) bool {
	if m.across {
		of, known := labels[p.Namespace]
		return known && m.of.matches(of) && m.pods.matches(p.Labels)
	}
	return p.Namespace == m.namespace && m.pods.matches(p.Labels)
}

// bitset is a set of slots.
type bitset []uint64

func (b bitset) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

func (b *bitset) set(i int, yes bool) {
	if i>>6 >= len(*b) {
		if !yes {
			return
		}
		*b = append(*b, make([]uint64, i>>6+1-len(*b))...)
	}
	if yes {
		(*b)[i>>6] |= 1 << (i & 63)
	} else {
		(*b)[i>>6] &^= 1 << (i & 63)
	}
}

// selection is what some peers come to: addresses of pods, or sockets where ports have names.
// It follows pods one by one, so that the change of one pod costs what one pod costs.
type selection struct {
	kind      Kind
	members   []member
	everybody bool
	local     bool           // pods of this node alone
	blocks    []addressRange // pods with an address in these count, too; for that address alone
	named     map[namedPort]bool

	picked bitset // of slots
	sums   [2]sum // of what it comes to, by family
	round  int    // in which it was used last
}

func (s *selection) matches(labels map[string]map[string]string, p *Pod) bool {
	return s.everybody || slices.ContainsFunc(s.members, func(m member) bool { return m.matches(labels, p) })
}

// fill looks at all pods.
func (s *selection) fill(w *world) {
	pick := func(m *member, namespace string) {
		for _, i := range w.byNamespace[namespace] {
			if p := w.slots[i].pod; (!s.local || p.Local) && m.pods.matches(p.Labels) {
				s.picked.set(i, true)
			}
		}
	}
	for i := range s.members {
		m := &s.members[i]
		if !m.across {
			pick(m, m.namespace)
			continue
		}
		for namespace, of := range w.labels {
			if m.of.matches(of) {
				pick(m, namespace)
			}
		}
	}
	for i := range w.slots {
		sl := &w.slots[i]
		if sl.pod == nil {
			continue
		}
		if s.everybody {
			s.picked.set(i, true)
		}
		s.count(sl, s.picked.has(i), sum.plus)
	}
}

// follow takes in the change of one pod.
func (s *selection) follow(w *world, c *change) {
	if c.old.pod != nil {
		s.count(&c.old, s.picked.has(c.at), sum.minus)
	}
	picked := c.now.pod != nil && (!s.local || c.now.pod.Local) && s.matches(w.labels, c.now.pod)
	s.picked.set(c.at, picked)
	if c.now.pod != nil {
		s.count(&c.now, picked, sum.plus)
	}
}

// count adds what a pod brings, or takes it away.
func (s *selection) count(sl *slot, picked bool, do func(sum, sum) sum) {
	if !picked && len(s.blocks) == 0 {
		return
	}
	if s.kind == Addresses {
		for f := range s.sums {
			s.sums[f] = do(s.sums[f], sl.sums[f])
		}
		return
	}
	s.keys(sl, picked, func(f int, key string) { s.sums[f] = do(s.sums[f], sumOf(key)) })
}

// keys are the elements that a pod brings, each once.
func (s *selection) keys(sl *slot, picked bool, yield func(f int, key string)) {
	for _, a := range sl.own {
		if !picked && !holds(s.blocks, a) {
			continue
		}
		f := indexOf(familyOf(a))
		if s.kind == Addresses {
			yield(f, key(a))
			continue
		}
		var last Port
		for _, port := range sl.ports {
			if !s.named[namedPort{port.Name, port.Protocol}] || port.Protocol == last.Protocol && port.Number == last.Number {
				continue
			}
			last = port
			yield(f, socketKey(a, port.Protocol, port.Number))
		}
	}
}

// elements makes a set's elements of one family.
func (s *selection) elements(w *world, f int) map[string]string {
	out := make(map[string]string, s.sums[f].n)
	add := func(i int) {
		s.keys(&w.slots[i], s.picked.has(i), func(of int, key string) {
			if of == f {
				out[key] = ""
			}
		})
	}
	if len(s.blocks) > 0 {
		for i := range w.slots {
			add(i)
		}
		return out
	}
	for n, word := range s.picked {
		for ; word != 0; word &= word - 1 {
			add(n<<6 + bits.TrailingZeros64(word))
		}
	}
	return out
}

// holds says whether an address is in ranges that do not meet, in order.
func holds(list []addressRange, a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(list, a, func(r addressRange, a netip.Addr) int { return r.first.Compare(a) })
	if found {
		return true
	}
	return i > 0 && familyOf(list[i-1].first) == familyOf(a) && !list[i-1].last.Less(a)
}
