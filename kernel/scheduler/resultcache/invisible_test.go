package resultcache

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// policies are what the world's policy is swapped among.
var policies = []struct {
	predicates []sdk.Predicate
	priorities []sdk.Priority
}{
	{[]sdk.Predicate{schedulertest.SelectNode, schedulertest.PerZone, schedulertest.FitCPU, schedulertest.ZoneVolume, schedulertest.Even, schedulertest.Shy}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.FewPods, schedulertest.BigNode, schedulertest.Spread, schedulertest.Crowd, schedulertest.Lonely, schedulertest.Quiet, schedulertest.Middle}},
	{[]sdk.Predicate{schedulertest.Even, schedulertest.ZoneVolume, schedulertest.SelectNode}, []sdk.Priority{schedulertest.Lonely, schedulertest.Spread}},
	{[]sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.Crowd, schedulertest.Lonely, schedulertest.LeastCPU}},
	{[]sdk.Predicate{schedulertest.Shy, schedulertest.FitCPU, schedulertest.Feuding}, []sdk.Priority{schedulertest.Middle, schedulertest.Quiet, schedulertest.Feared}},
	{[]sdk.Predicate{schedulertest.Feuding, schedulertest.FitCPU}, []sdk.Priority{schedulertest.Feared, schedulertest.LeastCPU}},
	{[]sdk.Predicate{schedulertest.FitCPU, schedulertest.ZoneVolume}, []sdk.Priority{
		schedulertest.Served("ServedReverse", sdk.NormalizeReverse), schedulertest.Served("ServedMax", sdk.NormalizeMax), schedulertest.Served("ServedBetween", sdk.NormalizeMinMax),
		schedulertest.Served("ServedPlugin", sdk.NormalizePlugin), schedulertest.Served("Served", ""), schedulertest.LeastCPU,
	}},
	{[]sdk.Predicate{schedulertest.PerZone, schedulertest.Even}, nil},
}

func (w *world) policyOf(which int) *schedulertest.GuestPolicy {
	return schedulertest.NewGuestPolicy(w.t, w.replica.Full, policies[which].predicates, policies[which].priorities)
}

// As FuzzCacheIsInvisible, against plugins that never saw the cluster before: each
// reference answer is of a new guest, fed once with everything, which has no state
// that it prepared or followed earlier. Pods change their shape while they run,
// nodes come back under their names, and the whole policy is swapped for another
// and back (decision 5, HOT-3).
func FuzzNothingIsLeftOver(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		w := newWorld(t, seed, script...)
		which := 0
		w.policy = w.policyOf(which)
		kept := map[int]*schedulertest.GuestPolicy{which: w.policy} // swapped away and fed no longer
		old := make([]*Class, 8)
		for i := range old {
			old[i] = w.class(uint32(i+1), w.random.IntN(60))
		}
		for range 80 {
			for range w.random.IntN(6) {
				w.change()
				w.changeMore()
			}
			if w.random.IntN(12) == 0 {
				which = w.random.IntN(len(policies))
				if kept[which] == nil || w.random.IntN(2) == 0 {
					kept[which] = w.policyOf(which)
				}
				w.policy = kept[which]
			}
			if w.random.IntN(25) == 0 {
				w.policy.Moment.Add(1)
			}
			w.fresh = nil
			w.flush()
			fresh := w.policyOf(which)
			if err := fresh.Apply(t.Context(), w.replica.Full()); err != nil {
				t.Fatal(err)
			}
			w.fresh = fresh // of what is supposed while it is asked
			for range 1 + w.random.IntN(2) {
				i := w.random.IntN(len(old))
				got := w.ask(old[i])
				want := w.askOf(&Class{id: old[i].id, shape: old[i].shape}, fresh)
				if !slices.Equal(got.fit, want.fit) || !slices.Equal(got.alone, want.alone) || !slices.Equal(got.totals, want.totals) || got.message != want.message || got.node != want.node {
					t.Fatalf("seed %d, policy %d, class %d:\ncached %+v\nasked  %+v", seed, which, i, got, want)
				}
				w.sameVerdicts(old[i], fresh)
			}
		}
	})
}

// sameVerdicts compares each verdict and raw score that a class holds with what a
// plugin says that is asked about that node alone.
func (w *world) sameVerdicts(c *Class, fresh *schedulertest.GuestPolicy) {
	for n, e := range w.snapshot.ByIndex {
		if e == nil {
			continue
		}
		for p := range c.predicates {
			kept := uint32(0) // of one that has nothing to say
			if !c.predicates[p].skip.now {
				kept = c.predicates[p].verdicts[n]
			}
			if kept == unknown || c.reserved[uint32(n)] && c.fail[n] == int32(p) {
				continue // not asked, or with the pods that are nominated there
			}
			out := []uint32{0}
			if err := fresh.Filter(w.t.Context(), p, c.id, []uint32{uint32(n)}, out); err != nil {
				w.t.Fatal(err)
			}
			have, want := w.policy.Reasons(p, kept), fresh.Reasons(p, out[0])
			if (kept == 0) != (out[0] == 0) || !slices.Equal(have, want) {
				w.t.Fatalf("class %d, node %s, %s: kept %v, asked %v", c.id, e.Name, c.predicates[p].Name, have, want)
			}
		}
		for i := range c.priorities {
			if c.fail[n] != fits || !c.priorities[i].skip.now && !c.priorities[i].have[n] {
				continue
			}
			out := []int64{0}
			if err := fresh.Score(w.t.Context(), i, c.id, []uint32{uint32(n)}, out); err != nil {
				w.t.Fatal(err)
			}
			if c.priorities[i].rawOf(uint32(n)) != out[0] {
				w.t.Fatalf("class %d, node %s, %s: kept %d, asked %d", c.id, e.Name, c.priorities[i].Name, c.priorities[i].rawOf(uint32(n)), out[0])
			}
		}
	}
}

// changeMore does what change does not: a pod gets another shape where it is, a node
// goes and one of its name comes, a node becomes empty at once.
func (w *world) changeMore() {
	if len(w.nodes) == 0 {
		return
	}
	name := w.nodes[w.random.IntN(len(w.nodes))]
	switch w.random.IntN(10) {
	case 0:
		for _, uid := range slices.Sorted(maps.Keys(w.pods))[:min(1, len(w.pods))] {
			p := w.pods[uid]
			node := p.Node
			w.snapshot.RemovePod(p)
			p.Shape = w.someShape()
			if node != "" {
				w.snapshot.AddPod(p, node)
			}
		}
	case 1:
		w.snapshot.RemoveNode(name)
		w.snapshot.SetNode(w.node(name))
	case 2:
		for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
			if p := w.pods[uid]; p.Node == name {
				w.snapshot.RemovePod(p)
				delete(w.pods, uid)
			}
		}
	case 3:
		w.serial++
		w.nodes = append(w.nodes, fmt.Sprint("n", w.serial))
		w.snapshot.SetNode(w.node(w.nodes[len(w.nodes)-1]))
	}
}
