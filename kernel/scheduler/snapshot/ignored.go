package snapshot

import (
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Unaffected are the plugins of a policy that ignore pods of a class: such a pod that
// comes to a node, or goes, does not change what the plugin says of a class that it
// ignores, too. The plugin is not asked about the node then. It is never changed.
type Unaffected struct {
	Policy     contractv1.Policy
	Generation uint64

	Predicates, Priorities PluginSet
}

// PluginSet is a set of the first 64 plugins of a kind, by index.
type PluginSet uint64

func (s PluginSet) Has(i int) bool { return i < 64 && s&(1<<i) != 0 }
