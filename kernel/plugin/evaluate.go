package plugin

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Evaluator = (*Policy)(nil)

// evaluator is a guest that several questions can be asked in one round trip.
// A WASM module is none: to call it costs less than to pack the questions.
type evaluator interface {
	// evaluates reports whether the plugin knows the call.
	evaluates() bool
	// evaluate hands over deltas and asks. It fills in what was answered. An
	// error means that the replica is in no defined state, unless it is
	// errAlone, which means that nothing happened.
	evaluate(ctx context.Context, deltas []part, generation uint64, names *names, e *contractv1.Evaluation) (took []time.Duration, err error)
}

// errAlone is returned by a plugin that was built before Evaluate was there.
var errAlone = errors.New("it is asked one question at a time")

// names of the plugins that an evaluation asks, parallel to its questions.
type names struct{ filters, scores []string }

// Evaluate answers the questions of e, all of which are asked of one bundle, in
// one round trip together with the deltas that wait.
func (p *Policy) Evaluate(ctx context.Context, e *contractv1.Evaluation) {
	var unit *unit
	n := names{}
	for _, q := range e.Filters {
		at := p.filters[q.Predicate]
		unit, n.filters = at.unit, append(n.filters, at.name)
	}
	for _, q := range e.Scores {
		at := p.scorers[q.Priority]
		unit, n.scores = at.unit, append(n.scores, at.name)
	}
	if unit == nil {
		return
	}
	unit.evaluate(ctx, p.replica, &n, e)
	for k := range e.Scores {
		q := &e.Scores[k]
		// Asked alone it is told what is wrong (SCH-16).
		if p.priorities[q.Priority].Normalize == string(sdk.NormalizeNone) && inRange(n.scores[k], p.priorities[q.Priority].Most(), q.Answered, q.Scores) != nil {
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
	asker, ok := g.(evaluator)
	if !ok || !asker.evaluates() {
		return
	}
	all := slices.Concat(n.filters, n.scores)
	for _, name := range all {
		if u.admit(name, time.Now()) != nil {
			return // the others are asked alone
		}
	}
	asking, span := u.span(ctx, u.bundle.Manifest.Name, "evaluate")
	began := time.Now()
	took, err := asker.evaluate(asking, u.queue, generation, n, e)
	if span != nil {
		at := began
		for k, d := range took {
			call := "filter"
			if k >= len(n.filters) {
				call = "score"
			}
			at = u.part(asking, span, all[k], call, at, d)
		}
		endSpan(span, err)
	}
	switch {
	case errors.Is(err, errAlone):
		return
	case err != nil:
		if ctx.Err() == nil {
			for _, name := range all {
				u.note(name, time.Now(), 0, 0, err)
			}
		}
		u.applyFailed(ctx, err)
		return
	}
	u.queue, u.queued, u.sent = nil, 0, generation
	// Whichever of them it was: what a plugin says of itself is no proof.
	elapsed := time.Since(began)
	for k, d := range took {
		name := ""
		if k < len(n.filters) {
			name = n.filters[k]
		} else {
			name = n.scores[k-len(n.filters)]
		}
		u.note(name, time.Now(), d, elapsed, nil)
	}
}

func (g *processGuest) evaluates() bool { return !g.alone }

func (g *processGuest) evaluate(ctx context.Context, deltas []part, generation uint64, n *names, e *contractv1.Evaluation) ([]time.Duration, error) {
	req := &contractv1.EvaluateRequest{Generation: generation, Class: e.Class, Nodes: e.Nodes}
	for _, p := range deltas {
		req.Deltas = append(req.Deltas, p.encoded)
	}
	for k, q := range e.Filters {
		req.Filters = append(req.Filters, &contractv1.Question{Plugin: n.filters[k], Nodes: q.Nodes})
	}
	for k, q := range e.Scores {
		req.Scores = append(req.Scores, &contractv1.Question{Plugin: n.scores[k], Nodes: q.Nodes})
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	began := time.Now()
	resp, err := g.scheduling.Evaluate(ctx, req)
	elapsed := time.Since(began)
	if status.Code(err) == codes.Unimplemented {
		g.alone = true
		return nil, errAlone
	}
	if err != nil {
		return nil, g.failed("evaluate", err)
	}
	if resp.GetGeneration() != generation {
		return nil, g.outOfRange("generation %d after delta %d", resp.GetGeneration(), generation)
	}
	g.generation = generation
	if len(resp.GetFilters()) > len(e.Filters) || len(resp.GetScores()) > len(e.Scores) {
		return nil, g.outOfRange("%d and %d answers to %d and %d questions", len(resp.GetFilters()), len(resp.GetScores()), len(e.Filters), len(e.Scores))
	}
	if len(resp.GetScores()) > 0 && len(resp.GetFilters()) < len(e.Filters) {
		return nil, g.outOfRange("scores of nodes that were not filtered")
	}
	var took []time.Duration
	note := func(nanoseconds uint64) {
		// What a plugin says of itself is believed within what was measured.
		took = append(took, time.Duration(min(nanoseconds, uint64(elapsed))))
	}
	var narrowing contractv1.Narrowing
	left := func(nodes []uint32) []uint32 {
		if len(nodes) == 0 {
			nodes = e.Nodes
		}
		return narrowing.Left(nodes)
	}
	for k, a := range resp.GetFilters() {
		q := &e.Filters[k]
		nodes := left(q.Nodes)
		verdicts := make([]uint32, len(nodes))
		if err := g.verdicts(g.position(n.filters[k]), a.GetVerdicts(), a.GetReasons(), verdicts); err != nil {
			return nil, err
		}
		narrowing.Refuse(nodes, verdicts)
		q.Answered, q.Verdicts = nodes, verdicts
		note(a.GetNanoseconds())
	}
	for k, a := range resp.GetScores() {
		q := &e.Scores[k]
		nodes := left(q.Nodes)
		if len(a.GetScores()) != len(nodes) {
			return nil, g.outOfRange("%d scores for %d nodes", len(a.GetScores()), len(nodes))
		}
		q.Answered, q.Scores = nodes, a.GetScores()
		if q.Scores == nil {
			q.Scores = []int64{}
		}
		note(a.GetNanoseconds())
	}
	return took, nil
}

func (g *processGuest) position(name string) int {
	for i, p := range g.plugins {
		if p.GetName() == name {
			return i
		}
	}
	return -1
}
