// Package nodiskconflict is the predicate NoDiskConflict: a node is unfit when
// a pod there mounts a disk that the pod would mount too (PRD-13).
package nodiskconflict

import (
	"slices"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the predicate.
const Name = "NoDiskConflict"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) had no available disk"

// New returns the predicate. It keeps no state and takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNode, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete},
	}}
}

func filterNodes(b *sdk.Batch) {
	for i := range b.Pod.Volumes {
		if compared(&b.Pod.Volumes[i]) {
			b.Each(filter)
			return
		}
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	for i := range r.Pod.Volumes {
		volume := &r.Pod.Volumes[i]
		if !compared(volume) {
			continue
		}
		for _, pod := range r.Node.Pods {
			for k := range pod.Volumes {
				if conflict(volume, &pod.Volumes[k]) {
					return sdk.Unfit(Reason) // PRD-16: the first one decides
				}
			}
		}
	}
	return sdk.Fits()
}

// compared reports whether the type of a volume takes part (PRD-15).
func compared(v *sdk.Volume) bool {
	switch v.Type {
	case "gcePersistentDisk", "awsElasticBlockStore", "rbd":
		return true
	}
	return false
}

// conflict applies the rule of the disk's type (FIL-5): a GCE disk may be
// shared when every mount is read-only, an EBS volume never, an RBD image when
// no monitor is shared.
func conflict(a, b *sdk.Volume) bool {
	if a.Type != b.Type || a.ID != b.ID {
		return false
	}
	switch a.Type {
	case "gcePersistentDisk":
		return !a.ReadOnly || !b.ReadOnly
	case "rbd":
		for _, monitor := range a.Monitors {
			if slices.Contains(b.Monitors, monitor) {
				return true
			}
		}
		return false
	}
	return true
}
