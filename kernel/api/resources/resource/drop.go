package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
)

// dropFromClaim takes away what Kubernetes has since 1.37.
func dropFromClaim(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for j := range r.FirstAvailable {
			r.FirstAvailable[j].DerivedAttributes = nil
		}
	}
}

// dropFromStatus takes away what Kubernetes has since 1.37.
func dropFromStatus(s *resourcev1.ResourceClaimStatus) {
	if s.Allocation != nil {
		for i := range s.Allocation.Devices.Results {
			s.Allocation.Devices.Results[i].SkipNodeOperations = nil
		}
	}
}

// dropFromSlice takes away what Kubernetes has since 1.37, and attributes of several
// values unless there were some before.
func dropFromSlice(o, old *resourcev1.ResourceSlice) {
	o.Spec.PartitionTypeAttribute, o.Spec.SkipNodeOperations = nil, nil
	lists := old != nil && usesListAttributes(&old.Spec)
	for i := range o.Spec.Devices {
		d := &o.Spec.Devices[i]
		d.NodeAllocatableResources = nil
		for j := range d.ConsumesCounters {
			d.ConsumesCounters[j].CompatibilityGroups = nil
		}
		if lists {
			continue
		}
		for name, a := range d.Attributes {
			a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}

// dropDeallocated takes away what drivers said of devices that the claim had and has
// no more, for clients that do not know of it.
func dropDeallocated(s, old *resourcev1.ResourceClaimStatus) {
	gone := allocated(old)
	for id := range allocated(s) {
		delete(gone, id)
	}
	var rest []resourcev1.AllocatedDeviceStatus
	for _, d := range s.Devices {
		if _, ok := gone[statusID(&d)]; !ok {
			rest = append(rest, d)
		}
	}
	s.Devices = rest
}
