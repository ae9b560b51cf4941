package plugin

import (
	"context"
	"errors"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/observe"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Evaluator = (*Policy)(nil)

// names are the plugins that an evaluation asks, parallel to its questions: filters
// first.
type names struct {
	guest.Asked
	places  []*place
	filters int
	stats   []*stats // of each
}

func (n *names) reset() {
	*n = names{places: n.places[:0], Asked: guest.Asked{Plugins: n.Plugins[:0]}, stats: n.stats[:0]}
}

// name is that of question k.
func (n *names) name(k int) string { return n.places[k].name }

// look finds the plugins in the unit; it reports whether all are there. mu is held.
func (n *names) look() bool {
	for _, at := range n.places {
		s := at.sit()
		if s == nil {
			return false
		}
		n.Plugins, n.stats = append(n.Plugins, guest.AskedPlugin{Index: s.index, Name: at.name, Expires: at.expires}), append(n.stats, s.stats)
	}
	return true
}

// admitted reports whether all may be asked now.
func (n *names) admitted(now time.Time) bool {
	for _, s := range n.stats {
		if s.circuit.admit(now) != nil {
			return false // the others are asked alone
		}
	}
	return true
}

// untimed reports whether no plugin's time need be taken.
func (n *names) untimed() bool {
	for _, s := range n.stats {
		if !s.untimed() {
			return false
		}
	}
	return true
}

// brief reports whether an evaluation is a brief question.
func brief(e *contractv1.Evaluation) bool {
	if len(e.Nodes) > briefNodes || len(e.Filters)+len(e.Scores) > briefAnswers/briefNodes {
		return false
	}
	for k := range e.Filters {
		if len(e.Filters[k].Nodes) > briefNodes {
			return false
		}
	}
	for k := range e.Scores {
		if len(e.Scores[k].Nodes) > briefNodes {
			return false
		}
	}
	return true
}

// Evaluate answers the questions of e, all of which are asked of one bundle, in
// one round trip together with the deltas that wait.
func (p *Policy) Evaluate(ctx context.Context, e *contractv1.Evaluation) {
	n := &p.asking
	n.reset()
	n.filters = len(e.Filters)
	for k := range e.Filters {
		n.places = append(n.places, &p.filters[e.Filters[k].Predicate])
	}
	for k := range e.Scores {
		n.places = append(n.places, &p.scorers[e.Scores[k].Priority])
	}
	if len(n.places) == 0 {
		return
	}
	n.places[0].unit.evaluate(ctx, p.replica, n, e)
	for k := range e.Scores {
		q := &e.Scores[k]
		// Asked alone it is told what is wrong (SCH-16).
		if p.priorities[q.Priority].Normalize == string(sdk.NormalizeNone) && inRange(n.name(n.filters+k), p.priorities[q.Priority].Most(), q.Answered, q.Scores) != nil {
			q.Answered, q.Scores = nil, nil
		}
	}
}

func (u *unit) evaluate(ctx context.Context, generation uint64, n *names, e *contractv1.Evaluation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g, err := u.ready(ctx, generation)
	if err != nil {
		return
	}
	asker, ok := g.(guest.Evaluator)
	if !ok || !asker.Evaluates() {
		return
	}
	if !n.look() {
		return
	}
	module, _ := g.(guest.Quick)
	traced, few := module != nil && observe.Sampled(ctx), module != nil && brief(e)
	n.Brief = few && u.apart.IsZero() && n.untimed()
	var began time.Time
	if !n.Brief {
		began = time.Now()
	}
	if traced || module != nil && began.Before(u.apart) {
		return // it does not say how long each question took
	}
	if !n.Brief {
		u.apart = time.Time{}
		if !n.admitted(began) {
			return
		}
	}
	u.asking = ctx
	defer u.asked()
	asking, span := u.span(ctx, u.bundle.Manifest.Name, "evaluate")
	took, err := asker.Evaluate(asking, u.queue, generation, &n.Asked, e)
	if span != nil {
		at := began
		for k, d := range took {
			call := "filter"
			if k >= n.filters {
				call = "score"
			}
			at = u.part(asking, span, n.name(k), call, at, d)
		}
		observe.EndSpan(span, err)
	}
	switch {
	case errors.Is(err, guest.ErrAlone):
		return
	case err != nil:
		if !contractv1.Ended(ctx) {
			first, behind, at := 0, len(n.Plugins), (*guest.QuestionError)(nil)
			if errors.As(err, &at) && at.Question < behind {
				first, behind = at.Question, at.Question+1
			}
			// Whoever it was took the time; of several nobody knows which.
			now, took := time.Now(), time.Duration(0)
			switch {
			case behind-first != 1:
			case !n.Brief:
				took = now.Sub(began)
			case module != nil:
				took = module.Elapsed(now)
			}
			for k := first; k < behind; k++ {
				u.note(n.name(k), now, took, 0, err)
			}
		}
		u.applyFailed(ctx, err)
		return
	}
	u.emptied(generation)
	if n.Brief && !module.UsedSlice() {
		for k := range took {
			n.stats[k].brief(n.ended(g, k, e))
		}
		return
	}
	// Whichever of them it was: what a plugin says of itself is no proof.
	now := time.Now()
	elapsed := now.Sub(began)
	if n.Brief {
		elapsed = module.Elapsed(now)
		wasm.Share(took, elapsed, e)
	}
	if module != nil && slow(elapsed, u.call) {
		// Asked one by one it shows who that was.
		u.apart, elapsed = now.Add(breakWindow), 0
	}
	for k, d := range took {
		u.noteOf(n.stats[k], n.name(k), now, d, elapsed, nil)
		n.stats[k].ended(n.ended(g, k, e), d)
		if few {
			n.stats[k].timed(d)
		}
	}
}

// ended is the code of the answer to question k.
func (n *names) ended(g guest.Guest, k int, e *contractv1.Evaluation) contractv1.Code {
	if k >= n.filters {
		return contractv1.Code_SUCCESS
	}
	verdicts := e.Filters[k].Verdicts
	if len(verdicts) == 1 && verdicts[0] == 0 {
		return contractv1.Code_SUCCESS
	}
	return filtered(verdicts, func(v uint32) bool { return g.Unresolvable(n.Plugins[k].Index, v) })
}
