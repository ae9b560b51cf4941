// Package volumezoneprefilter is the pre-filter plugin VolumeZonePreFilter, the
// part of kube-scheduler's VolumeZone that refuses pods as a whole: those
// whose claims are missing, or ought to be bound and are not.
package volumezoneprefilter

import (
	"pintle.dev/pintle/plugins/predicates/volumezone"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the plugin.
const Name = "VolumeZonePreFilter"

// New returns the plugin.
func New() sdk.PreFilter {
	return sdk.PreFilter{
		Name: Name, Pods: sdk.PodsWithClaims, Reads: volumezone.Reads(), Events: volumezone.Events(),
		Narrow: func(c *sdk.Cluster, pod *sdk.Pod) ([]*sdk.Node, sdk.Status) {
			if refusal := volumezone.Refusal(c, pod); refusal != "" {
				return nil, sdk.RefuseForGood(refusal)
			}
			return nil, sdk.Skipped()
		},
	}
}
