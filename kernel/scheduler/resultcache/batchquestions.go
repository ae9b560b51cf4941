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
func (u *update) filterTogether(ctx context.Context, p int, alive []uint32) {
	evaluator, ok := u.policy.(contractv1.Evaluator)
	group := u.predicates[p].Group
	if !ok || group == 0 {
		return
	}
	e := &u.questions
	*e = contractv1.Evaluation{Class: u.id, Nodes: alive, Filters: e.Filters[:0], Scores: e.Scores[:0]}
	count := 0
	last := p
	for ; last < len(u.predicates) && u.predicates[last].Group == group; last++ {
		if u.predicates[last].skip.now {
			continue
		}
		if nodes, some := missing(alive, u.predicates[last].verdicts, unknown); some {
			e.Filters = append(e.Filters, contractv1.FilterQuestion{Predicate: last, Nodes: nodes})
			count += len(alive)
		}
	}
	if last == len(u.predicates) {
		for i := range u.priorities {
			cache := &u.priorities[i]
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
	u.takeTogether(e)
}

// scoreTogether asks the priorities of each group about the nodes that c.asks lists.
func (u *update) scoreTogether(ctx context.Context) {
	evaluator, ok := u.policy.(contractv1.Evaluator)
	if !ok {
		return
	}
	for i := range u.priorities {
		group := u.priorities[i].Group
		if group == 0 || len(u.asks[i]) == 0 {
			continue
		}
		e := &u.questions
		*e = contractv1.Evaluation{Class: u.id, Filters: e.Filters[:0], Scores: e.Scores[:0]}
		count, first := 0, true
		for k := range u.priorities {
			if u.priorities[k].Group != group || len(u.asks[k]) == 0 {
				continue
			}
			if k < i {
				first = false // was asked, in vain
				break
			}
			e.Scores = append(e.Scores, contractv1.ScoreQuestion{Priority: k, Nodes: u.asks[k]})
			count += len(u.asks[k])
		}
		if first && len(e.Scores) > 1 && count <= togetherMax {
			evaluator.Evaluate(ctx, e)
			u.takeTogether(e)
		}
	}
}

func (u *update) takeTogether(e *contractv1.Evaluation) {
	for _, q := range e.Filters {
		cache := &u.predicates[q.Predicate]
		if u.expires {
			cache.until.sooner(q.Until)
		}
		for k, n := range q.Answered {
			cache.verdicts[n] = q.Verdicts[k]
		}
	}
	for _, q := range e.Scores {
		cache := &u.priorities[q.Priority]
		if u.expires {
			cache.until.sooner(q.Until)
		}
		for k, n := range q.Answered {
			u.takeScore(cache, n, q.Scores[k])
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
