package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
)

// Evicter ends a pod in favour of another: it sets the condition on the victim
// and deletes it, if it is still the same (UID).
type Evicter func(ctx context.Context, victim *v1.Pod, condition *v1.PodCondition) error

// preemptionWords begin what kube-scheduler says of a preemption.
const preemptionWords = "preemption: "

// postFilter asks what could be done for a pod that fits nowhere. The pod stays
// parked; it comes back when the victims have gone. It returns what the plugins
// answered, together.
func (s *Scheduler) postFilter(ctx context.Context, p *podEntry, profile *profile, d *explain.Decision) contractv1.Code {
	const none = contractv1.Code_UNSCHEDULABLE
	if profile == nil || !profile.at.Has(contractv1.Point_POST_FILTER) || p.shape.class == nil {
		s.withdraw(p)
		return none
	}
	at, c := profile.at, p.shape.class
	if c.Policy() != profile.policy {
		return none // there was no node to ask about
	}
	s.begin(work{profile: profile, again: decideAgain, pod: p})
	defer s.end()
	call := c.Refusals(s.view)
	call.Pods, call.Standing = []*contractv1.QueuedPod{p.queued()}, s.standing(p)
	var words []string
	all := none
	// One plugin after the other, until one succeeds, fails, or knows that nothing
	// can be done.
asking:
	for _, step := range at.Steps(contractv1.Point_POST_FILTER) {
		call.Steps = []contractv1.CycleStep{step}
		s.counts.preemptions.Inc()
		outcome, r := s.askPostFilter(ctx, p, profile, step, call)
		if ctx.Err() != nil || r == nil {
			return none
		}
		if outcome.Code != contractv1.Code_SKIP {
			d.Outcomes = append(d.Outcomes, outcome.Outcome())
		}
		switch outcome.Code {
		case contractv1.Code_SUCCESS:
			return outcome.Code
		case contractv1.Code_ERROR:
			s.trouble(outcome.Err(), d.Time)
			all, words = outcome.Code, outcome.Reasons
			break asking
		case contractv1.Code_SKIP:
			continue
		}
		if r.GetWithdrawn() {
			s.withdraw(p)
		}
		if outcome.Code == contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE {
			all, words = outcome.Code, outcome.Reasons
			break
		}
		words = append(words, outcome.Reasons...)
	}
	if len(words) > 0 {
		d.Message += " " + strings.Join(words, ", ")
	}
	return all
}

// askPostFilter asks one plugin, tries what it wants tried, and does what it
// decided.
func (s *Scheduler) askPostFilter(ctx context.Context, p *podEntry, profile *profile, step contractv1.CycleStep, call *contractv1.CycleCall) (*framework.Status, *contractv1.StepResult) {
	at, info := profile.at, profile.at.Info(step)
	var helpful []uint32
	if info.Samples {
		helpful = helpfulOf(call)
		call = sampled(call, len(helpful))
	}
	at.Cycler.Cycle(ctx, call)
	if ctx.Err() != nil || len(call.Results) == 0 {
		return nil, nil
	}
	r := call.Results[0]
	outcome := &framework.Status{Point: contractv1.Point_POST_FILTER, Info: info, Code: r.GetCode(), Reasons: r.GetReasons()}
	if r.GetCode() != contractv1.Code_SUCCESS {
		return outcome, r
	}
	failed := func(err error) (*framework.Status, *contractv1.StepResult) {
		outcome.Code, outcome.Reasons = contractv1.Code_ERROR, []string{preemptionWords + err.Error()}
		return outcome, r
	}
	tried := r.GetTrial() != nil
	if trial := r.GetTrial(); tried {
		if trial.GetSampled() {
			if int(trial.GetFirst()) >= len(helpful) {
				return failed(fmt.Errorf("it begins at node %d of %d", trial.GetFirst(), len(helpful)))
			}
			trial.Nodes = slices.Concat(helpful[trial.GetFirst():], helpful[:trial.GetFirst()])
		}
		chosen, err := s.tryOut(ctx, p, at, step, trial)
		if err != nil {
			return failed(err)
		}
		r = chosen
		outcome.Code, outcome.Reasons = r.GetCode(), r.GetReasons()
		if r.GetCode() != contractv1.Code_SUCCESS {
			return outcome, r
		}
	}
	if err := s.preempt(ctx, p, info.Name, r.GetNomination(), tried); err != nil {
		return failed(err)
	}
	return outcome, r
}

// tryOut tries nodes and has the plugin choose among the candidates that extenders
// leave. Where predicates look beyond a node, those are asked about the one it chose; only if
// they refuse, or extenders are to be told, about all.
func (s *Scheduler) tryOut(ctx context.Context, p *podEntry, at framework.Plugins, step contractv1.CycleStep, trial *contractv1.Trial) (*contractv1.StepResult, error) {
	c, extenders := p.shape.class, s.preempting(p.Object)
	for _, exact := range []bool{len(extenders) > 0, true} {
		call, attempts, err := s.dryRun(ctx, p, c, at, step, trial, exact)
		if err != nil {
			return nil, err
		}
		if len(extenders) > 0 && len(call.Candidates) > 0 {
			if call.Candidates, err = s.extendersTrim(ctx, p.Object, extenders, call.Candidates); err != nil {
				return nil, err
			}
			if len(call.Candidates) == 0 {
				return &contractv1.StepResult{Code: contractv1.Code_UNSCHEDULABLE, Reasons: []string{preemptionWords + noCandidate}}, nil
			}
		}
		var r *contractv1.StepResult
		if at.Info(step).Ranks && len(extenders) == 0 {
			if r, err = s.bestRanked(ctx, at, step, call, attempts); err != nil {
				return nil, err
			}
		}
		if r == nil {
			at.Cycler.Cycle(ctx, call)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if len(call.Results) == 0 {
				return nil, fmt.Errorf("it did not choose")
			}
			r = call.Results[0]
		}
		if r.GetCode() != contractv1.Code_SUCCESS || exact || !c.LooksBeyond() {
			return r, nil
		}
		n := r.GetNomination().GetNode()
		a := p.shape.trials.nodes[n]
		if a == nil || !a.does() {
			return r, nil // its own idea
		}
		alone, err := s.tryAlone(ctx, p, c, n, a)
		if err != nil {
			return nil, err
		}
		if alone.does() && slices.Equal(alone.victims, a.victims) {
			return r, nil
		}
	}
	return nil, nil // not reached
}

// helpfulOf lists the nodes of a call which fewer pods might make fit.
func helpfulOf(call *contractv1.CycleCall) []uint32 {
	list := make([]uint32, 0, len(call.Nodes))
	for k, n := range call.Nodes {
		if call.Refusals[call.Refused[k]].GetCode() != contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE {
			list = append(list, n)
		}
	}
	return list
}

// sampled is the call for a plugin that is told how many nodes are helpful, and of
// the nominated one alone what refused it.
func sampled(call *contractv1.CycleCall, helpful int) *contractv1.CycleCall {
	of := *call
	of.Nodes, of.Refused, of.Refusals, of.Helpful = nil, nil, nil, uint32(helpful)
	if own := call.Standing; own.GetKnown() {
		if k := slices.Index(call.Nodes, own.GetNode()); k >= 0 {
			of.Nodes, of.Refused, of.Refusals = call.Nodes[k:k+1], []uint32{0}, call.Refusals[call.Refused[k]:call.Refused[k]+1]
		}
	}
	return &of
}

// standing is what became of the node that a pod is nominated to.
func (s *Scheduler) standing(p *podEntry) *contractv1.Standing {
	if p.nominated == "" {
		return nil
	}
	standing := &contractv1.Standing{NodeName: p.nominated}
	e := s.snapshot.ByName[p.nominated]
	if e == nil || e.Object == nil {
		return standing
	}
	standing.Known, standing.Node = true, e.Index
	for uid, pod := range e.Pods {
		if pod.Object.DeletionTimestamp != nil && preempted(pod.Object) {
			standing.Leaving = append(standing.Leaving, string(uid))
		}
	}
	return standing
}

// preempted reports whether a preemption ended a pod.
func preempted(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
		}
	}
	return false
}
