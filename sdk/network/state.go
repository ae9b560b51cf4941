package network

import (
	"cmp"
	"maps"
	"slices"
)

// State is every other node after the diffs applied so far. The zero value is empty. It is
// not safe for use by several goroutines.
type State struct {
	Generation uint64
	nodes      map[string]*Node
}

// Apply folds a diff in.
func (s *State) Apply(diff *Diff) {
	if diff.GetReset_() || s.nodes == nil {
		s.nodes = map[string]*Node{}
	}
	for _, node := range diff.GetSet() {
		s.nodes[node.GetName()] = node
	}
	for _, name := range diff.GetRemoved() {
		delete(s.nodes, name)
	}
	s.Generation = diff.GetGeneration()
}

// Nodes are the other nodes by their registration, the oldest first: of two that claim the
// same, the first had it.
func (s *State) Nodes() []*Node {
	return slices.SortedFunc(maps.Values(s.nodes), func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.GetCreated(), b.GetCreated()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
