package contractv1

import "context"

// Idler is a Policy whose plugins may know that a rule has nothing to say about a
// class. Of one that is none, each plugin is asked about each node.
type Idler interface {
	// IdleVerdict reports that predicate i lets pods of a class pass on all nodes, and
	// IdleScore that the raw score of priority i is 0 on all of them, whatever nodes
	// are and have, until an object that it reads changes.
	IdleVerdict(ctx context.Context, i int, class uint32) bool
	IdleScore(ctx context.Context, i int, class uint32) bool
}
