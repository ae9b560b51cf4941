package nftables

import (
	"cmp"
	"iter"
	"slices"
)

// wanted is what all ports want of one table, and what of it the kernel may not have yet.
type wanted struct {
	cells  map[item]cell
	chains map[string]use
	// What the kernel held of what changed since settle was last called.
	changed map[item]held
	renewed map[string]bool // chains that were added, changed or left
	// What the kernel has beside elements: chains, and maps of clients that no chain has any
	// more.
	kernel  map[string]chain
	oldMaps []string
}

// use is a chain with how many ports want it.
type use struct {
	chain
	ports int
}

// claim is a port's claim of an element.
type claim struct {
	value string
	order uint64 // the lower has it: rank, and then which port came first
}

// cell is an element with the claim that holds, and those that wait behind it.
type cell struct {
	claim
	waiting []claim // in order
}

// held is the value of an element in the kernel.
type held struct {
	value   string
	present bool
}

func newWanted() *wanted {
	return &wanted{cells: map[item]cell{}, chains: map[string]use{}, changed: map[item]held{}, renewed: map[string]bool{}, kernel: map[string]chain{}}
}

// orderOf puts rank before the port's number.
func orderOf(r rank, port uint64) uint64 { return uint64(r)<<56 | port }

// note remembers what the kernel holds of an element before its first change.
func (w *wanted) note(i item) {
	if _, known := w.changed[i]; known {
		return
	}
	c, present := w.cells[i]
	w.changed[i] = held{c.value, present}
}

// taken is what remove has to know of a plan.
type taken struct {
	elements []element
	names    []string // of chains
}

// add takes a port's plan in. The number orders ports: the lower one came first. It must not
// have a plan here.
func (w *wanted) add(p plan, port uint64) taken {
	for _, e := range p.elements {
		w.note(e.item)
		c := claim{e.value, orderOf(e.rank, port)}
		old, taken := w.cells[e.item]
		switch {
		case !taken:
			w.cells[e.item] = cell{claim: c}
		case c.order < old.order:
			w.cells[e.item] = cell{claim: c, waiting: slices.Insert(slices.Clone(old.waiting), 0, old.claim)}
		default:
			at, _ := slices.BinarySearchFunc(old.waiting, c.order, func(o claim, order uint64) int {
				if o.order <= order {
					return -1
				}
				return 1
			})
			old.waiting = slices.Insert(old.waiting, at, c)
			w.cells[e.item] = old
		}
	}
	out := taken{elements: slices.Clip(p.elements)}
	for _, c := range p.chains {
		w.renewed[c.name] = true
		u := w.chains[c.name]
		w.chains[c.name] = use{c, u.ports + 1}
		out.names = append(out.names, c.name)
	}
	return out
}

// remove takes a plan out that add took in with the same number.
func (w *wanted) remove(p taken, port uint64) {
	for _, e := range p.elements {
		w.note(e.item)
		c := w.cells[e.item]
		order := orderOf(e.rank, port)
		if c.order != order {
			at := slices.IndexFunc(c.waiting, func(o claim) bool { return o.order == order })
			c.waiting = slices.Delete(c.waiting, at, at+1)
			w.cells[e.item] = c
			continue
		}
		if len(c.waiting) == 0 {
			delete(w.cells, e.item)
			continue
		}
		w.cells[e.item] = cell{claim: c.waiting[0], waiting: c.waiting[1:]}
	}
	for _, name := range p.names {
		w.renewed[name] = true
		if u := w.chains[name]; u.ports > 1 {
			w.chains[name] = use{u.chain, u.ports - 1}
		} else {
			delete(w.chains, name)
		}
	}
}

// pending is the transaction that brings the kernel what changed.
func (w *wanted) pending() transaction {
	var t transaction
	for name := range w.renewed {
		if u, ok := w.chains[name]; ok && w.kernel[name] != u.chain {
			t.chains = append(t.chains, u.chain)
		}
	}
	inOrder(t.chains)
	have := map[item]string{}
	for i, h := range w.changed {
		if h.present {
			have[i] = h.value
		}
	}
	t.changes = diff(have, touched{w})
	return t
}

// touched are the wanted elements that changed.
type touched struct{ *wanted }

func (t touched) get(i item) (string, bool) {
	c, ok := t.cells[i]
	return c.value, ok
}

func (t touched) all() iter.Seq2[item, string] {
	return func(yield func(item, string) bool) {
		for i := range t.changed {
			if c, ok := t.cells[i]; ok && !yield(i, c.value) {
				return
			}
		}
	}
}

// everything are all wanted elements.
type everything struct{ touched }

func (e everything) all() iter.Seq2[item, string] {
	return func(yield func(item, string) bool) {
		for i, c := range e.cells {
			if !yield(i, c.value) {
				return
			}
		}
	}
}

// whole is the transaction that brings a table everything that it lacks. It is empty where the
// table lacks nothing: each commit has others read their tables, too.
func (w *wanted) whole(there found) transaction {
	t := transaction{layout: !there.layout}
	for name, u := range w.chains {
		if c, unchanged := there.written[name]; !unchanged || c != u.chain {
			t.chains = append(t.chains, u.chain)
		}
	}
	inOrder(t.chains)
	t.changes = diff(there.elements, everything{touched{w}})
	return t
}

// inOrder sorts chains so that each comes after those that it leads to.
func inOrder(list []chain) {
	slices.SortFunc(list, func(a, b chain) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

// settle says that the kernel holds everything that is wanted.
func (w *wanted) settle() {
	for name := range w.renewed {
		u, ok := w.chains[name]
		if !ok {
			continue
		}
		if old := w.kernel[name].affinity; old != "" && old != u.affinity {
			w.oldMaps = append(w.oldMaps, old)
		}
		w.kernel[name] = u.chain
	}
	w.forget()
}

// forget drops what changed. The maps are new ones: those of a full load are as large as all
// that is wanted.
func (w *wanted) forget() { w.changed, w.renewed = map[item]held{}, map[string]bool{} }

// adopt says that the kernel holds everything that is wanted, and of these chains and maps
// those that no port wants.
func (w *wanted) adopt(chains, maps []string) {
	clear(w.kernel)
	for _, name := range chains {
		w.kernel[name] = chain{name: name}
	}
	w.oldMaps = nil
	inUse := map[string]bool{}
	for name, u := range w.chains {
		w.kernel[name] = u.chain
		inUse[u.affinity] = true
	}
	for _, name := range maps {
		if !inUse[name] {
			w.oldMaps = append(w.oldMaps, name)
		}
	}
	w.forget()
}

// stale names the chains that the kernel has and no port wants, and the maps of clients of
// which that is true. Nothing leads to them any more.
func (w *wanted) stale() (chains, maps []string) {
	maps = slices.Clone(w.oldMaps)
	for name, c := range w.kernel {
		if _, ok := w.chains[name]; ok {
			continue
		}
		chains = append(chains, name)
		if c.affinity != "" {
			maps = append(maps, c.affinity)
		}
	}
	slices.Sort(chains)
	slices.Sort(maps)
	return chains, slices.Compact(maps)
}

// pruned says that the kernel has what stale named no more.
func (w *wanted) pruned() {
	for name := range w.kernel {
		if _, ok := w.chains[name]; !ok {
			delete(w.kernel, name)
		}
	}
	w.oldMaps = nil
}
