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

// Indifferer is a Policy whose plugins of scope cluster may know that pods of one
// class do not concern each other. Of one that is none, each pod may concern all.
type Indifferer interface {
	// IndifferentVerdict reports that a pod of a class which is put on a node changes
	// nothing about what predicate i says of the class and other nodes, whatever pods
	// there are, until an object that it reads changes. IndifferentScore is the same
	// of priority i and its raw scores.
	IndifferentVerdict(ctx context.Context, i int, class uint32) bool
	IndifferentScore(ctx context.Context, i int, class uint32) bool
}

// Aloofer is a Policy whose plugins may know pods that have no part in a rule
// between pods. Of one that is none, each pod may concern all.
type Aloofer interface {
	// AloofVerdict reports that a pod of a class which comes to a node, or goes, does
	// not change what predicate i says, of any node, of any class of which the same is
	// reported, as long as the policy has its generation. AloofScore is the same of
	// priority i and its raw scores.
	AloofVerdict(ctx context.Context, i int, class uint32) bool
	AloofScore(ctx context.Context, i int, class uint32) bool
}
