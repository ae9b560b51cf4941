package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

var errNoPolicy = errors.New("the plugins of the profile are not ready")

// troubleEvery bounds the log lines about priorities that fail.
const troubleEvery = 10 * time.Second

// schedule makes one attempt to place a pod.
func (s *Scheduler) schedule(ctx context.Context, p *podEntry) {
	if p.Object.DeletionTimestamp != nil {
		s.report.failed(p.Object, fmt.Sprintf("skip schedule deleting pod: %s/%s", p.Namespace, p.Name))
		return
	}
	if !s.decides(p.Object.Spec.SchedulerName) {
		return // its profile was removed, and then its binding failed
	}
	s.deciding = true
	defer func() { s.deciding = false }()
	decision := &explain.Decision{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Time: s.clock.Now(),
		Attempt: p.attempts, Nodes: s.snapshot.Count,
	}
	if s.deps.Tracer != nil {
		var span oteltrace.Span
		ctx, span = s.beginSpan(ctx, p)
		defer func() { endSpan(span, decision) }()
	}
	p.began = decision.Time
	profile := s.profiles[p.Object.Spec.SchedulerName]
	p.seen, p.except, p.changed = s.eventSeq, 0, 0
	s.grant(profile, decideAgain, decision.Time)
	node, err := s.decide(ctx, p, decision)
	if ctx.Err() != nil {
		return
	}
	profile.metrics.decided(profile.policy, s.clock.Since(decision.Time), decision.Feasible, 1)
	switch {
	case err != nil:
		decision.Message = err.Error()
		s.withdraw(p)
		s.queue.retry(p, decision.Time)
		s.tell(p, v1.PodReasonSchedulerError, decision)
	case node == nil:
		began := profile.metrics.Start()
		code := s.postFilter(ctx, p, profile, decision)
		if profile.at.Has(contractv1.Point_POST_FILTER) {
			profile.metrics.Since(began, framework.PointTitle(contractv1.Point_POST_FILTER), contractv1.CodeNames[code])
		}
		if ctx.Err() != nil {
			return
		}
		s.queue.park(p, p.failed, decision.Time)
		var due time.Time
		if c := p.shape.class; c != nil {
			due = c.UnfitUntil()
		}
		s.queue.awaits(p, due)
		s.tell(p, v1.PodReasonUnschedulable, decision)
	default:
		decision.Node = node.Name
	}
	s.rested(profile, decideAgain, decision.Time)
	s.tellDecision(p, decision, err)
	if decision.Node != "" {
		if profile.at.Cycler == nil {
			s.assume(ctx, p, node)
		} else if !s.place(ctx, p, profile, node, decision) {
			return
		}
	}
	s.record.Keep(decision)
	if decision.Node != "" && ctx.Err() == nil { // nobody knows what became of the pod
		s.scheduleBatch(ctx, p, profile, node, decision)
	}
}

// decide picks the node for a pod; nil: none fits, and the decision's message
// and the pod's failure say why.
func (s *Scheduler) decide(ctx context.Context, p *podEntry, d *explain.Decision) (*snapshot.Node, error) {
	profile := s.profiles[p.Object.Spec.SchedulerName]
	s.begin(work{profile: profile, again: decideAgain, pod: p})
	defer s.end()
	c := s.classOf(p.shape)
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	if profile.policy == nil {
		return nil, errNoPolicy
	}
	if versioned, ok := profile.policy.(contractv1.Versioned); ok {
		d.Versions = versioned.Versions()
	}
	if s.snapshot.Count == 0 {
		d.Message, p.failed = noNodes, framework.NoNodes
		return nil, nil
	}
	c.Time(profile.metrics)
	err := c.Update(ctx, profile.policy, s.view)
	c.Time(nil)
	if err != nil {
		return nil, err
	}
	own, err := s.ownNode(ctx, p, c)
	if err != nil {
		return nil, err
	}
	if own != nil {
		return own, s.ownDecision(ctx, p, c, own, d)
	}
	d.Feasible = len(c.Feasible())
	if len(c.Feasible()) == 0 {
		d.Message, p.failed = c.Why(s.snapshot.Count)
		if s.cfg.Explain > 0 {
			d.Snapshot = c.DecisionSnapshot(s.view, 0, 0)
		}
		return nil, nil
	}
	if len(s.deps.Extenders) > 0 {
		filters, scorers := s.interested(p.Object, Extender.Filters), s.interested(p.Object, Extender.Prioritizes)
		if len(filters)+len(scorers) > 0 {
			return s.extended(ctx, p, c, filters, scorers, d)
		}
	}
	index, total, err := c.Choose(ctx, s.random)
	if err != nil {
		c.Forget()
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.priorityTrouble(c, d.Time)
	d.Total = total
	if s.cfg.Explain > 0 {
		d.Snapshot = c.DecisionSnapshot(s.view, index, total)
	}
	return s.snapshot.ByIndex[index], nil
}

func (s *Scheduler) priorityTrouble(c *resultcache.Class, now time.Time) {
	if c.Trouble() != nil && now.Sub(s.troubled) >= troubleEvery {
		s.troubled = now
		s.log.Warn("a priority failed and counted 0 for every node", "err", c.Trouble())
	}
}

// maxClassBytes bounds what the shapes of all classes take together: what plugins
// keep of a class is about ten times its size, and a pod may have thousands of
// constraints. 128 ordinary ones take a fifteenth of it.
const maxClassBytes = 2 << 20

// classOf returns the class of a shape, making room for a new one by dropping
// those that were used longest ago.
func (s *Scheduler) classOf(sh *shape) *resultcache.Class {
	s.decisions++
	if sh.class != nil {
		sh.used = s.decisions
		return sh.class
	}
	for len(s.cached) > 0 && (len(s.cached) >= s.cfg.MaxClasses || s.classBytes+sh.Size > maxClassBytes) {
		s.dropOldestClass()
	}
	s.lastClass++
	c := resultcache.NewClass(s.lastClass, &sh.Shape)
	sh.setClass(c)
	sh.used = s.decisions
	s.cached = append(s.cached, sh)
	s.classBytes += sh.Size
	s.snapshot.Pending = append(s.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{
		ClassSet: &contractv1.ClassSet{Class: c.Number(), Pod: sh.Message}}})
	return c
}

func (s *Scheduler) dropOldestClass() {
	oldest := 0
	for i, sh := range s.cached {
		if sh.used < s.cached[oldest].used {
			oldest = i
		}
	}
	s.dropClass(oldest)
}

// dropClass forgets a class.
func (s *Scheduler) dropClass(at int) {
	gone := s.cached[at]
	s.cached[at] = s.cached[len(s.cached)-1]
	s.cached = s.cached[:len(s.cached)-1]
	s.classBytes -= gone.Size
	number := gone.class.Number()
	gone.setClass(nil)
	if gone.refs == 0 {
		delete(s.shapes, gone.Key)
	}
	s.snapshot.Pending = append(s.snapshot.Pending, &contractv1.Operation{Op: &contractv1.Operation_ClassRemove{ClassRemove: number}})
}

// tell reports a failed attempt: each by an event, by the condition what is new.
func (s *Scheduler) tell(p *podEntry, reason string, d *explain.Decision) {
	s.attempted(p, resultOf(reason))
	s.report.failed(p.Object, d.Message)
	if p.reason == reason && p.message == d.Message && p.unwritten == nil {
		return
	}
	s.report.failure(p.Object, reason, d.Message, d.Time, p.unwritten)
	p.reason, p.message, p.unwritten = reason, d.Message, nil
}

// attempted counts the end of an attempt.
func (s *Scheduler) attempted(p *podEntry, r result) {
	if p.began.IsZero() {
		return // it was counted
	}
	if profile := s.profiles[p.Object.Spec.SchedulerName]; profile != nil {
		profile.metrics.ended(r, s.clock.Since(p.began))
	}
	p.began = time.Time{}
}

// assume counts the pod on the node from now on and sends the binding on its
// way. While every worker is busy the cycle waits, which bounds what is in
// flight; results have room for all of it, so that no worker waits for the cycle.
func (s *Scheduler) assume(ctx context.Context, p *podEntry, node *snapshot.Node) {
	s.assumes(p, node)
	if s.boundOutside(p.Object) {
		s.bind(ctx, p, s.profiles[p.Object.Spec.SchedulerName])
		return
	}
	select {
	case s.binds <- s.request(p, node.Name):
	case <-ctx.Done():
	}
}

// forgo gives the room of a pod away that is being deleted while its pre-bind plugins
// work or its binding is written: whatever they do, it is not to be bound. As by
// kube-scheduler they are not called off, and reserve plugins take back what they
// gave when that has ended.
func (s *Scheduler) forgo(p *podEntry) {
	s.assumed.remove(p)
	p.assumed, p.forgone = false, p.Node
	s.snapshot.RemovePod(&p.Pod)
	s.vacated(p.shape)
}

// forwent ends the way of a pod that gave up its room, when its binding failed.
func (s *Scheduler) forwent(p *podEntry) {
	s.takeBack(p, p.forgone)
	p.forgone = ""
	s.vacated(p.shape)
	s.withdraw(p)
}

// unassume takes an assumed pod off its node; that may help others.
func (s *Scheduler) unassume(p *podEntry) {
	s.assumed.remove(p)
	p.assumed = false
	s.takeBack(p, p.Node)
	s.snapshot.RemovePod(&p.Pod)
	p.except = s.vacated(p.shape)
}
