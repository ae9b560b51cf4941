package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// evaluate: Evaluate says what Filter and Score say, of the nodes that no
// filter before refused.
func evaluate(ctx context.Context, s *suite, a artifact.Artifact) error {
	e := a.(artifact.Evaluator)
	for k := range s.Seeds {
		w := s.world(k)
		whole := w.Whole()
		// Not the first cluster of this process: generations go up.
		whole.Generation = uint64(k + 1)
		if err := a.Apply(ctx, whole); err != nil {
			return err
		}
		step := w.Step()
		step.Generation = uint64(k + 2)
		delta, err := proto.Marshal(step)
		if err != nil {
			return err
		}
		req := &contractv1.EvaluateRequest{Deltas: [][]byte{delta}, Generation: step.Generation, Class: Class, Nodes: w.Nodes()}
		for _, d := range s.plugins {
			switch d.GetKind() {
			case sdk.KindPredicate:
				req.Filters = append(req.Filters, &contractv1.Question{Plugin: d.GetName()})
			case sdk.KindPriority:
				req.Scores = append(req.Scores, &contractv1.Question{Plugin: d.GetName()})
			}
		}
		resp, err := e.Evaluate(ctx, req)
		if errors.Is(err, artifact.ErrRefused) && k == 0 {
			return errSkip{"it is asked one by one"}
		}
		if err != nil {
			return err
		}
		answers, err := s.raw(ctx, a, w.Nodes())
		if err != nil {
			return err
		}
		if err := s.compare(req, resp, answers, w.Nodes()); err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
	}
	return nil
}

func (s *suite) compare(req *contractv1.EvaluateRequest, resp *contractv1.EvaluateResponse, answers []answer, nodes []uint32) error {
	if len(resp.GetFilters()) != len(req.GetFilters()) || len(resp.GetScores()) != len(req.GetScores()) {
		return fmt.Errorf("evaluate answers %d filters and %d scores of %d and %d", len(resp.GetFilters()), len(resp.GetScores()), len(req.GetFilters()), len(req.GetScores()))
	}
	of := func(name string) answer {
		return answers[slices.IndexFunc(answers, func(a answer) bool { return a.name == name })]
	}
	var narrowing contractv1.Narrowing
	for k, f := range resp.GetFilters() {
		left, name := narrowing.Left(nodes), req.GetFilters()[k].GetPlugin()
		if len(f.GetVerdicts()) != len(left) {
			return fmt.Errorf("evaluate: %s gives %d verdicts for the %d nodes that are left", name, len(f.GetVerdicts()), len(left))
		}
		for n, v := range f.GetVerdicts() {
			var got []string
			if v != 0 {
				if int(v) > len(f.GetReasons()) {
					return fmt.Errorf("evaluate: %s gives verdict %d of %d", name, v, len(f.GetReasons()))
				}
				got = f.GetReasons()[v-1].GetReasons()
			}
			if want := of(name).reasons[left[n]]; !slices.Equal(want, got) {
				return fmt.Errorf("evaluate: %s says %s of node %d, asked alone %s", name, words(got), left[n], words(want))
			}
		}
		narrowing.Refuse(left, f.GetVerdicts())
	}
	left := narrowing.Left(nodes)
	for k, f := range resp.GetScores() {
		name := req.GetScores()[k].GetPlugin()
		if len(f.GetScores()) != len(left) {
			return fmt.Errorf("evaluate: %s gives %d scores for the %d nodes that are left", name, len(f.GetScores()), len(left))
		}
		for n, got := range f.GetScores() {
			if want := of(name).scores[left[n]]; want != got {
				return fmt.Errorf("evaluate: %s scores node %d %d, asked alone %d", name, left[n], got, want)
			}
		}
	}
	return nil
}
