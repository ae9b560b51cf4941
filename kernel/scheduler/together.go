package scheduler

import (
	"context"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// togetherMax bounds the answers that one Evaluate is asked for: it has the
// deadline of one call, and spares nothing where each call has much to do.
const togetherMax = 4096

// filterTogether asks the predicates from p on, as far as they are of one
// group, about the nodes that are still alive, and the priorities of that group
// about those that pass if no other predicate comes after. Answers go where
// filter and score look first; what is not answered there is asked by them.
func (c *class) filterTogether(ctx context.Context, p int, alive []uint32) {
	evaluator, ok := c.policy.(contractv1.Evaluator)
	group := c.predicates[p].Group
	if !ok || group == 0 {
		return
	}
	e := &c.together
	*e = contractv1.Evaluation{Class: c.id, Nodes: alive, Filters: e.Filters[:0], Scores: e.Scores[:0]}
	count := 0
	last := p
	for ; last < len(c.predicates) && c.predicates[last].Group == group; last++ {
		if c.idleP[last].now {
			continue
		}
		if nodes, some := missing(alive, c.verdicts[last], unknown); some {
			e.Filters = append(e.Filters, contractv1.FilterQuestion{Predicate: last, Nodes: nodes})
			count += len(alive)
		}
	}
	if last == len(c.predicates) {
		for i := range c.priorities {
			if c.priorities[i].Group != group || c.idleS[i].now || c.voidS[i] && c.priorities[i].Scope == string(sdk.ScopeCluster) {
				continue
			}
			if nodes, some := missing(alive, c.have[i], false); some {
				e.Scores = append(e.Scores, contractv1.ScoreQuestion{Priority: i, Nodes: nodes})
				count += len(alive)
			}
		}
	}
	if len(e.Filters)+len(e.Scores) < 2 || count > togetherMax {
		return
	}
	evaluator.Evaluate(ctx, e)
	c.takeTogether(e)
}

// scoreTogether asks the priorities of each group about the nodes that c.asks lists.
func (c *class) scoreTogether(ctx context.Context) {
	evaluator, ok := c.policy.(contractv1.Evaluator)
	if !ok {
		return
	}
	for i := range c.priorities {
		group := c.priorities[i].Group
		if group == 0 || len(c.asks[i]) == 0 {
			continue
		}
		e := &c.together
		*e = contractv1.Evaluation{Class: c.id, Filters: e.Filters[:0], Scores: e.Scores[:0]}
		count, first := 0, true
		for k := range c.priorities {
			if c.priorities[k].Group != group || len(c.asks[k]) == 0 {
				continue
			}
			if k < i {
				first = false // was asked, in vain
				break
			}
			e.Scores = append(e.Scores, contractv1.ScoreQuestion{Priority: k, Nodes: c.asks[k]})
			count += len(c.asks[k])
		}
		if first && len(e.Scores) > 1 && count <= togetherMax {
			evaluator.Evaluate(ctx, e)
			c.takeTogether(e)
		}
	}
}

func (c *class) takeTogether(e *contractv1.Evaluation) {
	for _, q := range e.Filters {
		if q.Until != 0 && c.untilP != nil {
			c.untilP[q.Predicate].sooner(q.Until)
		}
		for k, n := range q.Answered {
			c.verdicts[q.Predicate][n] = q.Verdicts[k]
		}
	}
	for _, q := range e.Scores {
		if q.Until != 0 && c.untilS != nil {
			c.untilS[q.Priority].sooner(q.Until)
		}
		for k, n := range q.Answered {
			c.takeScore(q.Priority, n, q.Scores[k])
		}
	}
}

func (c *class) takeScore(i int, n uint32, score int64) {
	if before := c.raw[i][n]; before != score {
		c.raw[i][n] = score
		c.moved[i] = true
		c.unmeasured[i] = c.unmeasured[i] || score > c.largest[i] || before >= c.largest[i] ||
			c.priorities[i].Normalize == string(sdk.NormalizeMinMax) && (score < c.least[i] || before <= c.least[i])
		c.change(n)
	}
	c.have[i][n] = true
}

// missing returns those of nodes of which nothing is known, nil if that is all
// of them, and whether it is any. It runs over all nodes for each plugin, so it
// stops looking for the first of them as soon as it can, and calls nothing.
func missing[T comparable](nodes []uint32, answers []T, nothing T) (some []uint32, any bool) {
	first := 0
	for first < len(nodes) && answers[nodes[first]] != nothing {
		first++
	}
	if first == len(nodes) {
		return nil, false
	}
	behind := first + 1
	for behind < len(nodes) && answers[nodes[behind]] == nothing {
		behind++
	}
	if first == 0 && behind == len(nodes) {
		return nil, true
	}
	some = append(some, nodes[first:behind]...)
	for _, n := range nodes[behind:] {
		if answers[n] == nothing {
			some = append(some, n)
		}
	}
	return some, true
}
