package schedulertest

import (
	"pintle.dev/pintle/sdk"
)

func mean(pod *sdk.Pod) bool { return pod.Labels["mean"] != "" || pod.Labels["exclusive"] != "" }

func peaceful(pod *sdk.Pod) bool { return !mean(pod) }

// feud is what a rule between pods knows: by zone, how many pods there are and how
// many are mean. Pods that are not mean, and classes that are not, are aloof.
type feud struct {
	all, mean map[string]int64
	moved     []uint32
}

func prepareFeud(c *sdk.Cluster, _ *sdk.Pod) any {
	f := &feud{all: map[string]int64{}, mean: map[string]int64{}}
	for n := range c.Nodes {
		for _, p := range n.Pods {
			f.count(n, p, 1)
		}
	}
	return f
}

func (f *feud) count(n *sdk.Node, p *sdk.Pod, by int64) {
	f.all[n.Labels["zone"]] += by
	if mean(p) {
		f.mean[n.Labels["zone"]] += by
	}
}

func followFeud(c *sdk.Cluster, pod *sdk.Pod, state any, changes []sdk.Change) any {
	f := state.(*feud)
	zones := map[string]bool{}
	for i := range changes {
		change := &changes[i]
		switch change.Kind {
		case sdk.PodAdded:
			f.count(change.Node, change.Pod, 1)
		case sdk.PodRemoved:
			f.count(change.Node, change.Pod, -1)
		}
		if change.Pod != nil && (mean(change.Pod) || mean(pod)) {
			zones[change.Node.Labels["zone"]] = true
		}
	}
	f.moved = f.moved[:0]
	for n := range c.Nodes {
		if zones[n.Labels["zone"]] {
			f.moved = append(f.moved, n.Index)
		}
	}
	return f
}

func movedFeud(state any) ([]uint32, bool) { return state.(*feud).moved, false }

// Feuding lets mean pods into no zone with many pods, and others into none with two
// that are mean; feared is the number of those, or of all.
var (
	Feuding = sdk.Predicate{
		Name: "Feuding", Scope: sdk.ScopeCluster, Prepare: prepareFeud, Follow: followFeud, Moved: movedFeud, Aloof: peaceful,
		Filter: func(r *sdk.Request) sdk.Verdict {
			f, zone := r.State.(*feud), r.Node.Labels["zone"]
			if mean(r.Pod) && f.all[zone] > 20 || !mean(r.Pod) && f.mean[zone] > 1 {
				return sdk.Unfit("node(s) had a zone with others")
			}
			return sdk.Fits()
		},
	}
	Feared = sdk.Priority{
		Name: "Feared", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeMinMax, Prepare: prepareFeud, Follow: followFeud, Moved: movedFeud, Aloof: peaceful,
		Score: func(r *sdk.Request) int64 {
			f, zone := r.State.(*feud), r.Node.Labels["zone"]
			if mean(r.Pod) {
				return f.all[zone]
			}
			return -f.mean[zone]
		},
	}
)
