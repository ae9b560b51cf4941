// Package nodeaffinityscore is the priority NodeAffinityScore, the scoring half of
// kube-scheduler's NodeAffinity: the more of the preferred terms' weight a node
// matches, of the pod's terms and of those that the configuration adds, the better.
package nodeaffinityscore

import (
	"pintle.dev/pintle/plugins/predicates/nodeaffinity"
	"pintle.dev/pintle/plugins/predicates/nodeselector"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "NodeAffinityScore"

type priority struct{ added []sdk.PreferredTerm }

// New returns the priority, with nothing added until it is configured.
func New() sdk.Priority {
	p := &priority{}
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNodeObject, Normalize: sdk.NormalizeMax, MaxScore: sdk.MaxFrameworkScore,
		Configure: p.configure, Prepare: p.prepare, Idle: idle, Score: score,
	}
}

func (p *priority) configure(data []byte) error {
	args, err := nodeaffinity.ParseArgs(data)
	p.added = nodeselector.Preferred(args.AddedAffinity.Affinity())
	return err
}

func (p *priority) prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	return append(nodeselector.Preferred(pod.NodeAffinity), p.added...)
}

func idle(_ *sdk.Pod, state any) bool { return len(state.([]sdk.PreferredTerm)) == 0 }

func score(r *sdk.Request) int64 { return nodeselector.Weight(r.State.([]sdk.PreferredTerm), r.Node) }
