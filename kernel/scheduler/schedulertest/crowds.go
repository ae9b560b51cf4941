package schedulertest

import (
	"strings"

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

// Even is a predicate over a followed state: no zone may be more than two pods
// ahead of the emptiest.
var Even = sdk.Predicate{
	Name: "Even", Scope: sdk.ScopeCluster, Prepare: prepareCrowds, Follow: followCrowds,
	Filter: func(r *sdk.Request) sdk.Verdict {
		if c := r.State.(crowds); c[r.Node.Labels["zone"]] > c.least(r.Cluster)+2 {
			return sdk.Unfit("node(s) didn't match pod topology spread constraints")
		}
		return sdk.Fits()
	},
}

// Lonely is a priority over one, normalised by kube-scheduler's rule.
var Lonely = sdk.Priority{
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

// Shy is a predicate that says what moved: no zone may have more than three pods.
var Shy = sdk.Predicate{
	Name: "Shy", Scope: sdk.ScopeCluster, Prepare: prepareTold, Follow: followTold, Moved: movedTold,
	Filter: func(r *sdk.Request) sdk.Verdict {
		if r.State.(*told).crowds[r.Node.Labels["zone"]] > 3 {
			return sdk.Unfit("node(s) had a zone that is full")
		}
		return sdk.Fits()
	},
}

// Quiet and between are priorities that do, normalised by the plugin unless all is
// 0, and by the host from the smallest to the largest.
var (
	Quiet = sdk.Priority{
		Name: "Quiet", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizePlugin, Prepare: prepareTold, Follow: followTold, Moved: movedTold,
		Score: func(r *sdk.Request) int64 { return r.State.(*told).crowds[r.Node.Labels["zone"]] },
		NormalizeFunc: func(_ *sdk.Cluster, _ *sdk.Pod, _ any, nodes []*sdk.Node, scores []int64) {
			for k := range scores {
				scores[k] = min(scores[k]*2, 10) // all 0 stay so
			}
		},
	}
	Middle = sdk.Priority{
		Name: "Middle", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeMinMax, Prepare: prepareTold, Follow: followTold, Moved: movedTold,
		Score: func(r *sdk.Request) int64 { return -r.State.(*told).crowds[r.Node.Labels["zone"]] },
	}
)

// Served is a priority with nothing to say about pods that no Service selects.
func Served(name string, normalize sdk.Normalize) sdk.Priority {
	p := sdk.Priority{
		Name: name, Normalize: normalize, Reads: Spread.Reads, Prepare: Spread.Prepare, Idle: Spread.Idle,
		Score: func(r *sdk.Request) int64 {
			if !r.State.(bool) {
				return 0
			}
			return r.Node.Requested.Pods
		},
	}
	if normalize == sdk.NormalizePlugin {
		p.NormalizeFunc = Quiet.NormalizeFunc
	}
	return p
}
