// Package tainttolerationscore is the priority TaintTolerationScore, the scoring
// half of kube-scheduler's TaintToleration: the fewer PreferNoSchedule taints a
// node has that the pod does not tolerate, the better.
package tainttolerationscore

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch and weigh the priority.
const Name = "TaintTolerationScore"

// New returns the priority. It takes no configuration.
func New() sdk.Priority {
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNodeObject, Normalize: sdk.NormalizeReverse, MaxScore: sdk.MaxFrameworkScore,
		Prepare: prepare, Score: score, ScoreNodes: scoreNodes,
	}
}

// prepare keeps the tolerations that can be of such taints.
func prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	out := &sdk.Pod{}
	for _, t := range pod.Tolerations {
		if t.Effect == "" || t.Effect == "PreferNoSchedule" {
			out.Tolerations = append(out.Tolerations, t)
		}
	}
	return out
}

func scoreNodes(b *sdk.Batch) {
	r, scores := sdk.Request{State: b.State}, b.Scores()
	for k, n := range b.Nodes {
		if len(n.Taints) > 0 {
			r.Node = n
			scores[k] = score(&r)
		}
	}
}

func score(r *sdk.Request) int64 {
	var sum int64
	for i := range r.Node.Taints {
		if taint := &r.Node.Taints[i]; taint.Effect == "PreferNoSchedule" && !r.State.(*sdk.Pod).Tolerates(taint) {
			sum++
		}
	}
	return sum
}
