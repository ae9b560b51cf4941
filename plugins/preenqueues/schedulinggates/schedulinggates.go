// Package schedulinggates is the pre-enqueue plugin SchedulingGates: a pod does not
// enter the queue before its scheduling gates are gone (KEP-3521).
package schedulinggates

import (
	"strings"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the plugin.
const Name = "SchedulingGates"

// New returns the plugin. It takes no configuration.
func New() sdk.PreEnqueue {
	return sdk.PreEnqueue{
		Name: Name, Scope: sdk.ScopeNode, ByClass: true, Admit: admit,
		Events: []sdk.Interest{{Kind: sdk.KindPod, Actions: sdk.ActionUpdatePodSchedulingGatesEliminated}},
	}
}

func admit(_ *sdk.Cluster, pod *sdk.QueuedPod) sdk.Status {
	if len(pod.SchedulingGates) == 0 {
		return sdk.Status{}
	}
	return sdk.RefuseForGood("waiting for scheduling gates: [" + strings.Join(pod.SchedulingGates, " ") + "]")
}
