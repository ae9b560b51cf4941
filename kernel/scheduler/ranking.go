package scheduler

import (
	"context"
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
)

// bestRanked asks the plugin how the candidates compare of which that is not known
// yet, and nominates the pod to the first of the best; nil: none is to be chosen.
func (s *Scheduler) bestRanked(ctx context.Context, at framework.Plugins, step contractv1.CycleStep, call *contractv1.CycleCall, attempts []*attempt) (*contractv1.StepResult, error) {
	ask := &contractv1.CycleCall{Class: call.Class, Pods: call.Pods, Steps: []contractv1.CycleStep{{Point: contractv1.Point_RANK, Plugin: step.Plugin}}}
	var asked []*attempt
	for k, a := range attempts {
		if !a.ranked {
			asked, ask.Candidates = append(asked, a), append(ask.Candidates, call.Candidates[k])
		}
	}
	if len(asked) > 0 {
		at.Cycler.Cycle(ctx, ask)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if stop := at.Stop(ask); stop != nil {
			return nil, stop.Err()
		}
		if len(ask.Results) == 0 || len(ask.Results[0].GetRanks()) != len(asked) {
			return nil, nil // its failure is to be ignored
		}
		for k, rank := range ask.Results[0].GetRanks() {
			asked[k].rank, asked[k].ranked = rank.GetNumbers(), true
		}
	}
	best := -1
	for k, a := range attempts {
		if len(a.rank) > 0 && (best < 0 || slices.Compare(a.rank, attempts[best].rank) < 0) {
			best = k
		}
	}
	if best < 0 {
		return nil, nil
	}
	of := call.Candidates[best]
	return &contractv1.StepResult{Nomination: &contractv1.Nomination{Node: of.Node, Victims: of.Victims}}, nil
}
