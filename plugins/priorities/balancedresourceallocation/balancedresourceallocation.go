// Package balancedresourceallocation is the priority
// BalancedResourceAllocation: the closer the requested parts of a node's CPU
// and memory are to each other, the better (PRI-6).
package balancedresourceallocation

import (
	"math"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "BalancedResourceAllocation"

// New returns the priority. It keeps no state and takes no configuration.
func New() sdk.Priority {
	return sdk.Priority{Name: Name, Scope: sdk.ScopeNode, Normalize: sdk.NormalizeNone, Score: score}
}

// score is 10 less ten times the distance of the two fractions (PRI-8, with
// the sign that print lost, ODD-10), truncated. A full resource scores 0 (FIL-6).
// The fractions are of the node's total (ODD-6), requests are counted as
// LeastRequestedPriority does (PRI-9).
func score(r *sdk.Request) int64 {
	total := &r.Node.Capacity
	cpu := fraction(r.Node.NonZeroMilliCPU+r.Pod.NonZeroMilliCPU, total.MilliCPU)
	memory := fraction(r.Node.NonZeroMemory+r.Pod.NonZeroMemory, total.Memory)
	if cpu >= 1 || memory >= 1 {
		return 0
	}
	return int64(sdk.MaxScore - math.Abs(cpu-memory)*sdk.MaxScore)
}

func fraction(requested, total int64) float64 {
	if total == 0 {
		return 1
	}
	return float64(requested) / float64(total)
}
