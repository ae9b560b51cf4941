package resultcache

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// togetherMax bounds the answers that one Evaluate is asked for: it has the
// deadline of one call, and spares nothing where each call has much to do.
const togetherMax = 4096

// filterTogether asks the predicates from p on, as far as they are of one
// group, about the nodes that are still alive, and the priorities of that group
// about those that pass if no other predicate comes after. Answers go where
// filter and score look first; what is not answered there is asked by them.
func (c *Class) filterTogether(ctx context.Context, p int, alive []uint32) {
	evaluator, ok := c.policy.(contractv1.Evaluator)
	group := c.predicates[p].Group
	if !ok || group == 0 {
		return
	}
	e := &c.questions
	*e = contractv1.Evaluation{Class: c.id, Nodes: alive, Filters: e.Filters[:0], Scores: e.Scores[:0]}
	count := 0
	last := p
	for ; last < len(c.predicates) && c.predicates[last].Group == group; last++ {
		if c.predicates[last].skip.now {
			continue
		}
		if nodes, some := missing(alive, c.predicates[last].verdicts, unknown); some {
			e.Filters = append(e.Filters, contractv1.FilterQuestion{Predicate: last, Nodes: nodes})
			count += len(alive)
		}
	}
	if last == len(c.predicates) {
		for i := range c.priorities {
			cache := &c.priorities[i]
			if cache.Group != group || cache.skip.now || cache.void && cache.looksBeyond() {
				continue
			}
			if nodes, some := missing(alive, cache.have, false); some {
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
func (c *Class) scoreTogether(ctx context.Context) {
	evaluator, ok := c.policy.(contractv1.Evaluator)
	if !ok {
		return
	}
	for i := range c.priorities {
		group := c.priorities[i].Group
		if group == 0 || len(c.asks[i]) == 0 {
			continue
		}
		e := &c.questions
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

func (c *Class) takeTogether(e *contractv1.Evaluation) {
	for _, q := range e.Filters {
		cache := &c.predicates[q.Predicate]
		if c.expires {
			cache.until.sooner(q.Until)
		}
		for k, n := range q.Answered {
			cache.verdicts[n] = q.Verdicts[k]
		}
	}
	for _, q := range e.Scores {
		cache := &c.priorities[q.Priority]
		if c.expires {
			cache.until.sooner(q.Until)
		}
		for k, n := range q.Answered {
			c.takeScore(cache, n, q.Scores[k])
		}
	}
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
