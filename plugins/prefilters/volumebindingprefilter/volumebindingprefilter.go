// Package volumebindingprefilter is the pre-filter plugin VolumeBindingPreFilter, the
// part of kube-scheduler's VolumeBinding that refuses pods as a whole: those
// whose claims are missing, lost, going, not theirs, or ought to be bound and are not.
package volumebindingprefilter

import (
	"pintle.dev/pintle/plugins/predicates/volumebinding"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the plugin.
const Name = "VolumeBindingPreFilter"

// New returns the plugin.
func New() sdk.PreFilter {
	return sdk.PreFilter{
		Name: Name, Pods: sdk.PodsWithClaims, Reads: volumebinding.Reads(), Events: volumebinding.Events(), Configure: volumebinding.Configure,
		Narrow: func(c *sdk.Cluster, pod *sdk.Pod) ([]*sdk.Node, sdk.Status) {
			if refusal := volumebinding.ClaimsOf(c, pod).Refusal; refusal != "" {
				return nil, sdk.RefuseForGood(refusal)
			}
			return nil, sdk.Skipped()
		},
	}
}
