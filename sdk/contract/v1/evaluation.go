package contractv1

import "context"

// Evaluator is a Policy that answers several questions about one class in one
// call, where the plugins behind them live together: PredicateInfo.Group and
// PriorityInfo.Group say which do.
type Evaluator interface {
	// Evaluate answers what it can of e, all of one group. What it leaves
	// unanswered is asked by Filter and Score, which know what to do about
	// failures; so Evaluate has none.
	Evaluate(ctx context.Context, e *Evaluation)
}

// Evaluation is a list of questions about one class, with room for the answers.
type Evaluation struct {
	Class uint32
	// Nodes are what questions without nodes of their own are about.
	Nodes []uint32
	// Filters are asked in order; a node that one refuses is left out of the
	// filters after it and of all scores.
	Filters []FilterQuestion
	Scores  []ScoreQuestion
}

// FilterQuestion asks one predicate by its position in the policy.
type FilterQuestion struct {
	Predicate int
	Nodes     []uint32 // nil: the evaluation's
	// Answered nodes are those that were not left out; Verdicts run parallel
	// to them and are as of Policy.Filter. nil: there is no answer.
	Answered []uint32
	Verdicts []uint32
	Until    int64 // as of Expirer
}

// ScoreQuestion asks one priority by its position in the policy.
type ScoreQuestion struct {
	Priority int
	Nodes    []uint32 // nil: the evaluation's
	Answered []uint32 // as of FilterQuestion
	Scores   []int64  // as of Policy.Score; nil: there is no answer
	Until    int64    // as of Expirer
}

// Expirer is a Policy with answers that end with time: those of plugins whose
// PredicateInfo or PriorityInfo says Expires.
type Expirer interface {
	// VerdictsUntil is when the answers to the last Filter of predicate i end, and
	// ScoresUntil those to the last Score of priority i, in Unix milliseconds; 0: time
	// does not end them.
	VerdictsUntil(i int) int64
	ScoresUntil(i int) int64
}

// Narrowing keeps count of the nodes that the filters of one evaluation
// refused. Both sides of a transport use it, so that they agree which answer
// belongs to which node. The zero value has refused none.
type Narrowing struct{ refused map[uint32]struct{} }

// Left returns the nodes that were not refused; nodes itself if that is all of them.
func (n *Narrowing) Left(nodes []uint32) []uint32 {
	if len(n.refused) == 0 {
		return nodes
	}
	left := make([]uint32, 0, len(nodes))
	for _, node := range nodes {
		if _, refused := n.refused[node]; !refused {
			left = append(left, node)
		}
	}
	return left
}

// Refuse takes in one filter's verdicts about nodes.
func (n *Narrowing) Refuse(nodes, verdicts []uint32) {
	for k, verdict := range verdicts {
		if verdict == 0 {
			continue
		}
		if n.refused == nil {
			n.refused = map[uint32]struct{}{}
		}
		n.refused[nodes[k]] = struct{}{}
	}
}
