// Package leastrequestedpriority is the priority LeastRequestedPriority: the
// less of a node's CPU and memory is requested, the better (PRI-1).
package leastrequestedpriority

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch and weigh the priority.
const Name = "LeastRequestedPriority"

// New returns the priority. It keeps no state and takes no configuration.
func New() sdk.Priority {
	return sdk.Priority{Name: Name, Scope: sdk.ScopeNode, Normalize: sdk.NormalizeNone, Score: score}
}

// score is the mean of the free tenths of CPU and memory, the pod included.
// What a node offers to pods counts as its capacity (PRI-4), and a container
// that requests nothing as 100m and 200Mi (FIL-3).
func score(r *sdk.Request) int64 {
	offer := &r.Node.Allocatable
	cpu := free(offer.MilliCPU, r.Node.NonZeroMilliCPU+r.Pod.NonZeroMilliCPU)
	memory := free(offer.Memory, r.Node.NonZeroMemory+r.Pod.NonZeroMemory)
	return (cpu + memory) / 2
}

// free is in whole tenths, rounded down at every step (FIL-6).
func free(capacity, requested int64) int64 {
	if capacity == 0 || requested > capacity {
		return 0
	}
	return (capacity - requested) * sdk.MaxScore / capacity
}
