// Package leastrequestedpriority is the priority LeastRequestedPriority: the
// less of a node's CPU and memory is requested, the better (PRI-1).
package leastrequestedpriority

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch and weigh the priority.
const Name = "LeastRequestedPriority"

// New returns the priority. It keeps no state and takes no configuration.
func New() sdk.Priority {
	return sdk.Priority{Name: Name, Scope: sdk.ScopeNode, Normalize: sdk.NormalizeNone, Score: score, ScoreNodes: scoreNodes}
}

func score(r *sdk.Request) int64 { return of(r.Pod, r.Node) }

func scoreNodes(b *sdk.Batch) {
	scores, pod := b.Scores(), b.Pod
	for k, n := range b.Nodes {
		scores[k] = of(pod, n)
	}
}

// of is the mean of the free tenths of CPU and memory, the pod included.
// What a node offers to pods counts as its capacity (PRI-4), and a container
// that requests nothing as 100m and 200Mi (FIL-3).
func of(pod *sdk.Pod, node *sdk.Node) int64 {
	offer := &node.Allocatable
	cpu := free(offer.MilliCPU, node.NonZeroMilliCPU+pod.NonZeroMilliCPU)
	memory := free(offer.Memory, node.NonZeroMemory+pod.NonZeroMemory)
	return (cpu + memory) / 2
}

// free is in whole tenths, rounded down at every step (FIL-6).
func free(capacity, requested int64) int64 {
	if capacity == 0 || requested > capacity {
		return 0
	}
	return (capacity - requested) * sdk.MaxScore / capacity
}
