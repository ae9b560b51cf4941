// Package volumerestrictionsprefilter is the pre-filter plugin VolumeRestrictionsPreFilter, the
// part of kube-scheduler's VolumeRestrictions that refuses pods as a whole: those
// a claim of which is missing.
package volumerestrictionsprefilter

import (
	"pintle.dev/pintle/plugins/predicates/volumerestrictions"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the plugin.
const Name = "VolumeRestrictionsPreFilter"

// New returns the plugin.
func New() sdk.PreFilter {
	return sdk.PreFilter{
		Name: Name, Pods: sdk.PodsWithClaims, Reads: []string{"PersistentVolumeClaim"}, Events: volumerestrictions.Events(),
		Narrow: func(c *sdk.Cluster, pod *sdk.Pod) ([]*sdk.Node, sdk.Status) {
			if refusal := volumerestrictions.Refusal(c, pod); refusal != "" {
				return nil, sdk.RefuseForGood(refusal)
			}
			return nil, sdk.Skipped()
		},
	}
}
