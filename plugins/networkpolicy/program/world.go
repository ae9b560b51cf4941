package program

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// slot is the place of a pod among all, which it keeps as long as it is known.
type slot struct {
	pod   *Pod
	own   []netip.Addr // its addresses, but for those that are another one's by now
	ports []Port       // in order of protocol and number, each once
	sums  [2]sum       // of own, by family
}

// change is what happened to a slot.
type change struct {
	at       int
	old, now slot // a nil pod: none
}

// world is what is known of pods and namespaces from one program to the next.
type world struct {
	slots       []slot
	index       map[*Pod]int
	free        []int
	labels      map[string]map[string]string // of namespaces
	byNamespace map[string][]int
	local       map[string][]int // of this node, in order of names
	versions    map[string]int   // of local: another number after each change
	families    []Family
}

func newWorld() *world {
	return &world{index: map[*Pod]int{}, versions: map[string]int{}}
}

// update takes a cluster in, and returns what changed. A pod is a changed one if it is another
// object, if its own addresses are others, or the labels of its namespace.
func (w *world) update(c *Cluster) []change {
	relabelled := w.relabel(c.Namespaces)
	owners := c.Owners()
	var changes []change
	touch := func(at int, now slot) {
		old := w.slots[at]
		for _, p := range []*Pod{old.pod, now.pod} {
			if p != nil && p.Local {
				w.versions[p.Namespace]++
			}
		}
		w.slots[at] = now
		changes = append(changes, change{at, old, now})
	}
	seen := make(map[*Pod]bool, len(c.Pods))
	for _, p := range c.Pods {
		if seen[p] {
			continue
		}
		seen[p] = true
		own := owners.of(p)
		at, known := w.index[p]
		if known && !relabelled[p.Namespace] && slices.Equal(w.slots[at].own, own) {
			continue
		}
		if !known {
			at = w.place()
			w.index[p] = at
		}
		touch(at, newSlot(p, own))
	}
	for p, at := range w.index {
		if !seen[p] {
			touch(at, slot{})
			delete(w.index, p)
			w.free = append(w.free, at)
		}
	}
	w.group()
	w.families = c.families()
	return changes
}

// place is a slot that is free. Those that pods leave in an update are free in the next.
func (w *world) place() int {
	if n := len(w.free); n > 0 {
		at := w.free[n-1]
		w.free = w.free[:n-1]
		return at
	}
	w.slots = append(w.slots, slot{})
	return len(w.slots) - 1
}

func newSlot(p *Pod, own []netip.Addr) slot {
	s := slot{pod: p, own: own, ports: slices.Clone(p.Ports)}
	slices.SortFunc(s.ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name))
	})
	s.ports = slices.Compact(s.ports)
	for _, a := range own {
		f := indexOf(familyOf(a))
		s.sums[f] = s.sums[f].plus(sumOf(key(a)))
	}
	return s
}

// relabel takes the labels of namespaces in, and says which are others than before.
func (w *world) relabel(now map[string]map[string]string) map[string]bool {
	differ := map[string]bool{}
	for name, labels := range now {
		if before, was := w.labels[name]; !was || !maps.Equal(before, labels) {
			differ[name] = true
		}
	}
	for name := range w.labels {
		if _, is := now[name]; !is {
			differ[name] = true
		}
	}
	w.labels = maps.Clone(now)
	return differ
}

// group finds pods by namespaces.
func (w *world) group() {
	w.byNamespace, w.local = map[string][]int{}, map[string][]int{}
	for i := range w.slots {
		p := w.slots[i].pod
		if p == nil {
			continue
		}
		w.byNamespace[p.Namespace] = append(w.byNamespace[p.Namespace], i)
		if p.Local {
			w.local[p.Namespace] = append(w.local[p.Namespace], i)
		}
	}
	for _, list := range w.local {
		slices.SortFunc(list, func(a, b int) int { return strings.Compare(w.slots[a].pod.Name, w.slots[b].pod.Name) })
	}
}
