// Package dynamicresources is the predicate DynamicResources, which refuses every
// pod that has resource claims: claims are made and kept, but no device is allocated
// here, so that such a pod could not have what it asks for. A pod without claims is
// no concern of it.
package dynamicresources

import (
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "DynamicResources"

// Reason is what a FailedScheduling event says.
const Reason = "node(s) cannot allocate resource claims: this scheduler allocates no devices"

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeNodeObject, Contract: contract.Three, Events: []sdk.Interest{},
		Idle: func(pod *sdk.Pod, _ any) bool { return len(pod.ResourceClaims) == 0 },
		Filter: func(r *sdk.Request) sdk.Verdict {
			if len(r.Pod.ResourceClaims) > 0 {
				return sdk.Never(Reason)
			}
			return sdk.Fits()
		},
	}
}
