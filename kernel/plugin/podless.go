package plugin

import (
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// podless reports whether plugins look at no pod on a node, which each says by its
// scope. They are told of none: pods come and go a thousand times as often as what
// else a replica has, and a process would be woken for them again and again.
func podless(described map[string]*contractv1.PluginDescription) bool {
	for _, d := range described {
		if !sdk.SchedulingKind(d.GetKind()) || d.GetScope() != string(sdk.ScopeNodeObject) {
			return false
		}
	}
	return len(described) > 0
}
