package contractv1

import "context"

// Mover is a Policy whose plugins of scope cluster may know which of their answers
// changed. Of one that is none, all may have after each change.
type Mover interface {
	// MovedVerdicts lists the nodes about which predicate i may answer otherwise
	// about a class than when now was since, beside those that changed themselves
	// or whose pods did; known is false if it may about any node. 0 is no moment.
	// The nodes are good until the next call.
	MovedVerdicts(ctx context.Context, i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool)
	// MovedScores is the same of priority i and its raw scores; where no node is
	// listed, normalised scores are as before, too.
	MovedScores(ctx context.Context, i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool)
}
