package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// crowds is a state over the cluster: by zone, the pods of the class's app.
type crowds map[string]int64

func (c crowds) count(pod *sdk.Pod, n *sdk.Node, p *sdk.Pod, by int64) {
	if p.Labels["app"] == pod.Labels["app"] {
		c[n.Labels["zone"]] += by
	}
}

func prepareCrowds(c *sdk.Cluster, pod *sdk.Pod) any {
	out := crowds{}
	for n := range c.Nodes {
		for _, p := range n.Pods {
			out.count(pod, n, p, 1)
		}
	}
	return out
}

// followCrowds keeps the state current from pods that come and go. Of a node that
// changes its zone, the pods do both. Some new nodes make it give up.
func followCrowds(_ *sdk.Cluster, pod *sdk.Pod, state any, changes []sdk.Change) any {
	out := state.(crowds)
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case sdk.PodAdded:
			out.count(pod, c.Node, c.Pod, 1)
		case sdk.PodRemoved:
			out.count(pod, c.Node, c.Pod, -1)
		case sdk.NodeSet:
			if c.Old == nil && strings.HasSuffix(c.Node.Name, "3") {
				return nil
			}
		}
	}
	return out
}

// least is the smallest crowd, of all zones that have any node.
func (c crowds) least(cluster *sdk.Cluster) int64 {
	least := int64(-1)
	for n := range cluster.Nodes {
		if have := c[n.Labels["zone"]]; least < 0 || have < least {
			least = have
		}
	}
	return least
}

// even is a predicate over a followed state: no zone may be more than two pods
// ahead of the emptiest.
var even = sdk.Predicate{
	Name: "Even", Scope: sdk.ScopeCluster, Prepare: prepareCrowds, Follow: followCrowds,
	Filter: func(r *sdk.Request) sdk.Verdict {
		if c := r.State.(crowds); c[r.Node.Labels["zone"]] > c.least(r.Cluster)+2 {
			return sdk.Unfit("node(s) didn't match pod topology spread constraints")
		}
		return sdk.Fits()
	},
}

// lonely is a priority over one, normalised by kube-scheduler's rule.
var lonely = sdk.Priority{
	Name: "Lonely", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeReverse, Prepare: prepareCrowds, Follow: followCrowds,
	Score: func(r *sdk.Request) int64 { return r.State.(crowds)[r.Node.Labels["zone"]] },
}

// told is a followed state that says which nodes the last Follow moved.
type told struct {
	crowds
	touched map[string]bool // zones
	moved   []uint32
}

func prepareTold(c *sdk.Cluster, pod *sdk.Pod) any {
	return &told{crowds: prepareCrowds(c, pod).(crowds), touched: map[string]bool{}}
}

func followTold(c *sdk.Cluster, pod *sdk.Pod, state any, changes []sdk.Change) any {
	t := state.(*told)
	clear(t.touched)
	for i := range changes {
		if n := changes[i].Node; changes[i].Pod != nil && changes[i].Pod.Labels["app"] == pod.Labels["app"] {
			t.touched[n.Labels["zone"]] = true
		}
	}
	if followCrowds(c, pod, t.crowds, changes) == nil {
		return nil
	}
	t.moved = t.moved[:0]
	for n := range c.Nodes {
		if t.touched[n.Labels["zone"]] {
			t.moved = append(t.moved, n.Index)
		}
	}
	return t
}

func movedTold(state any) ([]uint32, bool) {
	return state.(*told).moved, len(state.(*told).touched) > 1
}

// shy is a predicate that says what moved: no zone may have more than three pods.
var shy = sdk.Predicate{
	Name: "Shy", Scope: sdk.ScopeCluster, Prepare: prepareTold, Follow: followTold, Moved: movedTold,
	Filter: func(r *sdk.Request) sdk.Verdict {
		if r.State.(*told).crowds[r.Node.Labels["zone"]] > 3 {
			return sdk.Unfit("node(s) had a zone that is full")
		}
		return sdk.Fits()
	},
}

// quiet and between are priorities that do, normalised by the plugin unless all is
// 0, and by the host from the smallest to the largest.
var (
	quiet = sdk.Priority{
		Name: "Quiet", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizePlugin, Prepare: prepareTold, Follow: followTold, Moved: movedTold,
		Score: func(r *sdk.Request) int64 { return r.State.(*told).crowds[r.Node.Labels["zone"]] },
		NormalizeFunc: func(_ *sdk.Cluster, _ *sdk.Pod, _ any, nodes []*sdk.Node, scores []int64) {
			for k := range scores {
				scores[k] = min(scores[k]*2, 10) // all 0 stay so
			}
		},
	}
	middle = sdk.Priority{
		Name: "Middle", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeMinMax, Prepare: prepareTold, Follow: followTold, Moved: movedTold,
		Score: func(r *sdk.Request) int64 { return -r.State.(*told).crowds[r.Node.Labels["zone"]] },
	}
)

// served is a priority with nothing to say about pods that no Service selects.
func served(name string, normalize sdk.Normalize) sdk.Priority {
	p := sdk.Priority{
		Name: name, Normalize: normalize, Reads: schedulertest.Spread.Reads, Prepare: schedulertest.Spread.Prepare, Idle: schedulertest.Spread.Idle,
		Score: func(r *sdk.Request) int64 {
			if !r.State.(bool) {
				return 0
			}
			return r.Node.Requested.Pods
		},
	}
	if normalize == sdk.NormalizePlugin {
		p.NormalizeFunc = quiet.NormalizeFunc
	}
	return p
}

// policies are what the world's policy is swapped among.
var policies = []struct {
	predicates []sdk.Predicate
	priorities []sdk.Priority
}{
	{[]sdk.Predicate{schedulertest.SelectNode, schedulertest.PerZone, schedulertest.FitCPU, schedulertest.ZoneVolume, even, shy}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.FewPods, schedulertest.BigNode, schedulertest.Spread, schedulertest.Crowd, lonely, quiet, middle}},
	{[]sdk.Predicate{even, schedulertest.ZoneVolume, schedulertest.SelectNode}, []sdk.Priority{lonely, schedulertest.Spread}},
	{[]sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.Crowd, lonely, schedulertest.LeastCPU}},
	{[]sdk.Predicate{shy, schedulertest.FitCPU, feuding}, []sdk.Priority{middle, quiet, feared}},
	{[]sdk.Predicate{feuding, schedulertest.FitCPU}, []sdk.Priority{feared, schedulertest.LeastCPU}},
	{[]sdk.Predicate{schedulertest.FitCPU, schedulertest.ZoneVolume}, []sdk.Priority{
		served("ServedReverse", sdk.NormalizeReverse), served("ServedMax", sdk.NormalizeMax), served("ServedBetween", sdk.NormalizeMinMax),
		served("ServedPlugin", sdk.NormalizePlugin), served("Served", ""), schedulertest.LeastCPU,
	}},
	{[]sdk.Predicate{schedulertest.PerZone, even}, nil},
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
		old := make([]*class, 8)
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
				want := w.askOf(&class{id: old[i].id, shape: old[i].shape}, fresh)
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
func (w *world) sameVerdicts(c *class, fresh *schedulertest.GuestPolicy) {
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
