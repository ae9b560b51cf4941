package scheduler

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// ErrUnknownPod is returned for a pod that the scheduler does not know: there
// is none of the name, or it has ended, or another scheduler places it.
var ErrUnknownPod = errors.New("the scheduler knows no such pod")

// ErrNotReady is returned while the scheduler has not seen the cluster, or its
// plugins are not ready.
var ErrNotReady = errors.New("the scheduler is not ready")

// inspect runs f in the cycle, between two decisions.
func (s *Scheduler) inspect(ctx context.Context, f func(cycle context.Context)) error {
	done := make(chan struct{})
	wrapped := func(cycle context.Context) {
		defer close(done)
		if ctx.Err() == nil {
			f(cycle)
		}
	}
	select {
	case s.inspections <- wrapped:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Why explains a pod: a bound one by the decision that was made, as long as
// that is kept, everything else by asking every plugin about every node once,
// between two decisions. Errors: ErrUnknownPod, ErrNotReady, what ctx ends with.
func (s *Scheduler) Why(ctx context.Context, namespace, name string, o explain.Options) (*explain.Explanation, error) {
	var x *explain.Explanation
	var err error
	if ended := s.inspect(ctx, func(cycle context.Context) { x, err = s.why(cycle, namespace, name, o) }); ended != nil {
		return nil, fmt.Errorf("explain pod %s/%s: %w", namespace, name, ended)
	}
	return x, err
}

func (s *Scheduler) why(ctx context.Context, namespace, name string, o explain.Options) (*explain.Explanation, error) {
	if s.unsynced > 0 {
		return nil, fmt.Errorf("%w: it has not seen the whole cluster yet", ErrNotReady)
	}
	var p *podEntry
	for _, e := range s.pods {
		if e.Name == name && e.Namespace == namespace {
			p = e
		}
	}
	d, kept := s.record.Last(namespace, name)
	if p == nil {
		if kept && d.Node != "" {
			return d.Explanation(o, "it has ended since"), nil
		}
		return nil, ErrUnknownPod
	}
	kept = kept && d.UID == p.UID
	if p.Node != "" && kept && d.Node == p.Node && !o.Now {
		x := d.Explanation(o, "")
		x.Profile, x.State = p.Object.Spec.SchedulerName, p.state()
		return x, nil
	}
	x, err := s.evaluate(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if kept {
		x.Attempt, x.Outcomes = d.Attempt, d.Outcomes
		if p.Node == "" {
			x.Message = d.Message
		}
	}
	if p.Node != "" {
		x.Note = "the decision is no longer kept; this is what the plugins say now, as if the pod were not there"
		if kept && d.Node == p.Node {
			x.Note = "what the plugins say now, as if the pod were not there"
		}
	}
	return x, nil
}

func (p *podEntry) state() string {
	switch {
	case p.assumed:
		return "binding"
	case p.Node != "":
		return "bound"
	case p.place == gated:
		return "gated"
	case p.place == unschedulable:
		return "unschedulable"
	case p.place == backingOff:
		return "back-off"
	}
	return "waiting"
}

// evaluate asks every plugin about every node for a pod; one that is on a node
// is taken off it for that long. The cycle waits, as for a decision whose class
// is new.
func (s *Scheduler) evaluate(ctx context.Context, p *podEntry, o explain.Options) (_ *explain.Explanation, err error) {
	profile := s.profiles[p.Object.Spec.SchedulerName]
	if profile == nil || profile.removed {
		return nil, fmt.Errorf("%w: its schedulerName is %s, which is no profile of this kernel", ErrUnknownPod, p.Object.Spec.SchedulerName)
	}
	x := &explain.Explanation{
		Namespace: p.Namespace, Pod: p.Name, Profile: p.Object.Spec.SchedulerName, State: p.state(), Source: explain.SourceEvaluation,
		Time: s.clock.Now(), Attempt: p.attempts, Node: p.Node, Nodes: s.snapshot.Count,
	}
	onNode := x.Node != ""
	putBack := func() {
		if onNode {
			onNode = false
			s.snapshot.AddPod(&p.Pod, x.Node)
		}
	}
	if onNode {
		s.snapshot.RemovePod(&p.Pod)
	}
	s.begin(work{profile: profile, left: func() {
		putBack()
		s.abandonClass(p.shape.class)
	}})
	defer func() {
		if s.end(); onNode {
			putBack()
			err = errors.Join(err, s.flush(ctx))
		}
		if overtaken(ctx) {
			err = fmt.Errorf("%w: a plugin of profile %s did not answer within %s, and pods of other profiles went on; ask again", ErrNotReady, x.Profile, contractv1.YieldAfter)
		}
	}()
	c := s.classOf(p.shape)
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	if profile.policy == nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReady, errNoPolicy)
	}
	if s.snapshot.Count == 0 {
		x.Message = noNodes
		x.Plugins = explain.PluginAccounts(profile.policy, profile.policy.Predicates(), profile.policy.Priorities())
		return x, nil
	}
	if err := c.Update(ctx, profile.policy, s.view); err != nil {
		return nil, err
	}
	if err := s.account(ctx, p, c, x, o); err != nil {
		return nil, err
	}
	if x.Node == "" {
		if len(c.Feasible()) == 0 {
			x.Message, _ = c.Why(s.snapshot.Count)
		}
		x.Note = s.rooms(p, c)
		if p.place == gated && len(p.Object.Spec.SchedulingGates) > 0 {
			x.Note = "it waits for its scheduling gates: " + gateNames(p.Object)
		}
	}
	return x, nil
}

func gateNames(pod *v1.Pod) string {
	out := ""
	for i, g := range pod.Spec.SchedulingGates {
		if i > 0 {
			out += ", "
		}
		out += g.Name
	}
	return out
}

// account asks for what the class has not: the verdicts of predicates after
// one that refused.
func (s *Scheduler) account(ctx context.Context, p *podEntry, c *resultcache.Class, x *explain.Explanation, o explain.Options) error {
	e := &explain.Evaluation{Class: c, Snapshot: s.snapshot, Pod: p.shape.Message}
	if err := e.AskAll(ctx, x); err != nil {
		return err
	}
	said, restore, err := s.extendersSay(ctx, p, c)
	defer restore()
	if err != nil {
		return err
	}
	e.Complete(x, said, o)
	return nil
}

// Explain returns the last decision about a pod, if it is still kept.
func (s *Scheduler) Explain(namespace, name string) (explain.Decision, bool) {
	d, ok := s.record.Last(namespace, name)
	if ok && d.Node != "" {
		d.Scores = explain.WinnerScores(d.Snapshot)
	}
	return d, ok
}
