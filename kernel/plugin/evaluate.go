package plugin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

var _ contractv1.Evaluator = (*Policy)(nil)

// evaluator is a guest that several questions can be asked in one round trip.
type evaluator interface {
	// evaluates reports whether the plugin knows the call.
	evaluates() bool
	// evaluate hands over what is queued and asks. It fills in what was answered. An
	// error means that the replica is in no defined state, unless it is
	// errAlone, which means that nothing happened.
	evaluate(ctx context.Context, queue []part, generation uint64, a *asked, e *contractv1.Evaluation) (took []time.Duration, err error)
}

// batchTaker takes several deltas in one round trip.
type batchTaker interface {
	evaluator
	applyAll(ctx context.Context, queue []part) error
}

// errAlone is returned by a plugin that was built before Evaluate was there.
var errAlone = errors.New("it is asked one question at a time")

// whileAsking is the error of an evaluation that ended at a question: 0 is the
// first, of filters and then of scores.
type whileAsking struct {
	question int
	err      error
}

func (e *whileAsking) Error() string { return e.err.Error() }
func (e *whileAsking) Unwrap() error { return e.err }

// deltas are the encodings of what is queued for a guest.
func deltas(queue []part, classes bool) ([][]byte, error) {
	var out [][]byte
	for _, p := range queue {
		encoded, err := p.bytes(classes)
		if err != nil {
			return nil, err
		}
		out = append(out, encoded)
	}
	return out, nil
}

// names are the plugins that an evaluation asks, parallel to its questions: filters
// first.
type names struct {
	asked
	places  []*place
	filters int
	stats   []*stats // of each
}

func (n *names) reset() {
	*n = names{places: n.places[:0], asked: asked{plugins: n.plugins[:0]}, stats: n.stats[:0]}
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
		n.plugins, n.stats = append(n.plugins, askedPlugin{s.index, at.name, at.expires}), append(n.stats, s.stats)
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
	asker, ok := g.(evaluator)
	if !ok || !asker.evaluates() {
		return
	}
	if !n.look() {
		return
	}
	module, _ := g.(quick)
	traced, few := module != nil && sampled(ctx), module != nil && brief(e)
	n.brief = few && u.apart.IsZero() && n.untimed()
	var began time.Time
	if !n.brief {
		began = time.Now()
	}
	if traced || module != nil && began.Before(u.apart) {
		return // it does not say how long each question took
	}
	if !n.brief {
		u.apart = time.Time{}
		if !n.admitted(began) {
			return
		}
	}
	u.asking = ctx
	defer u.asked()
	asking, span := u.span(ctx, u.bundle.Manifest.Name, "evaluate")
	took, err := asker.evaluate(asking, u.queue, generation, &n.asked, e)
	if span != nil {
		at := began
		for k, d := range took {
			call := "filter"
			if k >= n.filters {
				call = "score"
			}
			at = u.part(asking, span, n.name(k), call, at, d)
		}
		endSpan(span, err)
	}
	switch {
	case errors.Is(err, errAlone):
		return
	case err != nil:
		if !contractv1.Ended(ctx) {
			first, behind, at := 0, len(n.plugins), (*whileAsking)(nil)
			if errors.As(err, &at) && at.question < behind {
				first, behind = at.question, at.question+1
			}
			// Whoever it was took the time; of several nobody knows which.
			now, took := time.Now(), time.Duration(0)
			switch {
			case behind-first != 1:
			case !n.brief:
				took = now.Sub(began)
			case module != nil:
				took = module.elapsed(now)
			}
			for k := first; k < behind; k++ {
				u.note(n.name(k), now, took, 0, err)
			}
		}
		u.applyFailed(ctx, err)
		return
	}
	u.emptied(generation)
	if n.brief && !module.usedSlice() {
		for k := range took {
			n.stats[k].brief(n.ended(g, k, e))
		}
		return
	}
	// Whichever of them it was: what a plugin says of itself is no proof.
	now := time.Now()
	elapsed := now.Sub(began)
	if n.brief {
		elapsed = module.elapsed(now)
		share(took, elapsed, e)
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
func (n *names) ended(g guest, k int, e *contractv1.Evaluation) contractv1.Code {
	if k >= n.filters {
		return contractv1.Code_SUCCESS
	}
	verdicts := e.Filters[k].Verdicts
	if len(verdicts) == 1 && verdicts[0] == 0 {
		return contractv1.Code_SUCCESS
	}
	return filtered(verdicts, func(v uint32) bool { return g.unresolvable(n.plugins[k].index, v) })
}

func (g *processGuest) evaluates() bool { return !g.alone }

// applyAll hands over what is queued in one round trip, which costs as much as that
// of one delta.
func (g *processGuest) applyAll(ctx context.Context, queue []part) error {
	_, err := g.evaluate(ctx, queue, queue[len(queue)-1].delta.GetGeneration(), &asked{}, &contractv1.Evaluation{})
	return err
}

func (g *processGuest) evaluate(ctx context.Context, queue []part, generation uint64, n *asked, e *contractv1.Evaluation) ([]time.Duration, error) {
	req := &contractv1.EvaluateRequest{Generation: generation, Class: e.Class, Nodes: e.Nodes}
	encoded, err := deltas(queue, g.classes)
	if err != nil {
		return nil, err
	}
	req.Deltas = encoded
	for k, q := range e.Filters {
		req.Filters = append(req.Filters, &contractv1.Question{Plugin: n.plugins[k].name, Nodes: q.Nodes})
	}
	for k, q := range e.Scores {
		req.Scores = append(req.Scores, &contractv1.Question{Plugin: n.plugins[len(e.Filters)+k].name, Nodes: q.Nodes})
	}
	resp := &contractv1.EvaluateResponse{}
	began := time.Now()
	err = g.ask(ctx, transport.Evaluate, req, resp, maxAnswerBytes, g.timeout)
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
		if err := g.verdicts(n.plugins[k].index, a.GetVerdicts(), a.GetReasons(), verdicts); err != nil {
			return nil, err
		}
		narrowing.Refuse(nodes, verdicts)
		if err := g.untilOf(a.GetUntilUnixMilli()); err != nil {
			return nil, err
		}
		q.Answered, q.Verdicts, q.Until = nodes, verdicts, g.answeredUntil
		note(a.GetNanoseconds())
	}
	for k, a := range resp.GetScores() {
		q := &e.Scores[k]
		nodes := left(q.Nodes)
		if len(a.GetScores()) != len(nodes) {
			return nil, g.outOfRange("%d scores for %d nodes", len(a.GetScores()), len(nodes))
		}
		if err := g.untilOf(a.GetUntilUnixMilli()); err != nil {
			return nil, err
		}
		q.Answered, q.Scores, q.Until = nodes, a.GetScores(), g.answeredUntil
		if q.Scores == nil {
			q.Scores = []int64{}
		}
		note(a.GetNanoseconds())
	}
	return took, nil
}
