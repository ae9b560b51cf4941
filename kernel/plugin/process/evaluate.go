package process

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

// ForgetClasses has the guest get each pod in full, as a process does that does not say that
// it knows classes.
func (g *Guest) ForgetClasses() { g.classes = false }

func (g *Guest) Evaluates() bool { return !g.alone }

// ApplyAll hands over what is queued in one round trip, which costs as much as that
// of one delta.
func (g *Guest) ApplyAll(ctx context.Context, queue []guest.Part) error {
	_, err := g.Evaluate(ctx, queue, queue[len(queue)-1].Delta.GetGeneration(), &guest.Asked{}, &contractv1.Evaluation{})
	return err
}

func (g *Guest) Evaluate(ctx context.Context, queue []guest.Part, generation uint64, n *guest.Asked, e *contractv1.Evaluation) ([]time.Duration, error) {
	req := &contractv1.EvaluateRequest{Generation: generation, Class: e.Class, Nodes: e.Nodes}
	encoded, err := guest.Deltas(queue, g.classes)
	if err != nil {
		return nil, err
	}
	req.Deltas = encoded
	for k, q := range e.Filters {
		req.Filters = append(req.Filters, &contractv1.Question{Plugin: n.Plugins[k].Name, Nodes: q.Nodes})
	}
	for k, q := range e.Scores {
		req.Scores = append(req.Scores, &contractv1.Question{Plugin: n.Plugins[len(e.Filters)+k].Name, Nodes: q.Nodes})
	}
	resp := &contractv1.EvaluateResponse{}
	began := time.Now()
	err = g.ask(ctx, transport.Evaluate, req, resp, maxAnswerBytes, g.Timeout)
	elapsed := time.Since(began)
	if status.Code(err) == codes.Unimplemented {
		g.alone = true
		return nil, guest.ErrAlone
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
		if err := g.verdicts(n.Plugins[k].Index, a.GetVerdicts(), a.GetReasons(), verdicts); err != nil {
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
