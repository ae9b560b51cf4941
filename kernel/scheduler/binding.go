package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
)

// The condition reasons, as kube-scheduler has them.
const (
	reasonUnschedulable  = v1.PodReasonUnschedulable
	reasonSchedulerError = v1.PodReasonSchedulerError
)

// bind sends the binding of an assumed pod on its way. Where plugins take part, or an
// extender binds, the way is a goroutine of its own, so that one that takes its time
// holds up no other pod; BindWorkers of them work at once for each profile.
func (s *Scheduler) bind(ctx context.Context, p *podEntry, profile *profile) {
	ctx = beside(ctx)
	request := s.request(p, p.Node)
	if profile == nil || len(profile.at.StepsFor(p.shape.converted(), contractv1.Point_PRE_BIND, contractv1.Point_BIND, contractv1.Point_POST_BIND)) == 0 && !s.boundOutside(p.Object) {
		told := p.expected.written()
		if over(told) && s.hand(ctx, request) {
			return
		}
		// Every worker is busy: the cycle does not wait here, as it may be in the
		// middle of a plugin's answers.
		s.bindings.Go(func() {
			if !ended(ctx, told) {
				return
			}
			select {
			case s.binds <- request:
			case <-ctx.Done():
			}
		})
		return
	}
	at := profile.at
	about, of := s.onNode(p, p.Node, nil), p.shape
	preparing, pre := ctx, (*preBinding)(nil)
	if p.preBinds(at) {
		s.expects(p)
		pre = &preBinding{}
		preparing, pre.cancel = context.WithCancel(ctx)
		p.preBinding = pre
	}
	told := p.expected.written()
	s.bindings.Go(func() {
		if pre != nil {
			defer pre.cancel()
		}
		if ended(preparing, told) {
			select {
			case profile.slots <- struct{}{}:
				defer func() { <-profile.slots }()
			case <-preparing.Done(): // called off, or the end
			}
		}
		if ctx.Err() != nil {
			return
		}
		result := bindResult{entry: request.entry, uid: request.uid, node: request.node}
		if pre != nil {
			result.stop = s.preBind(preparing, at, about, of, request.profile, pre)
		}
		if ctx.Err() != nil {
			return
		}
		if result.stop == nil {
			result.stop, result.err = s.bindThrough(ctx, at, about, of, request, pre == nil)
		}
		select {
		case s.results <- result:
		case <-ctx.Done():
			return
		}
		if result.err == nil && result.stop == nil && at.Has(contractv1.Point_POST_BIND) {
			s.step(ctx, request.profile, at, with(about, at.Steps(contractv1.Point_POST_BIND)))
		}
	})
}

// hand passes a binding to the workers unless all are busy.
func (s *Scheduler) hand(ctx context.Context, request bindRequest) bool {
	select {
	case s.binds <- request:
		return true
	default:
		return ctx.Err() != nil
	}
}

// bindThrough asks the pre-bind plugins, unless they were, and then one bind plugin after
// the other until one does not skip. It writes the binding where one leaves it to the host, and
// where all skip and none is the last, behind which nobody binds.
func (s *Scheduler) bindThrough(ctx context.Context, at framework.Plugins, about *contractv1.CycleCall, of *shape, request bindRequest, preBind bool) (*framework.Status, error) {
	var steps []contractv1.CycleStep
	if preBind {
		steps = at.StepsFor(of.converted(), contractv1.Point_PRE_BIND)
	}
	binders := at.Steps(contractv1.Point_BIND)
	if s.boundOutside(request.pod) {
		binders = nil // an extender binds instead
	}
	if len(binders) > 0 {
		steps, binders = append(steps, binders[0]), binders[1:]
	}
	for len(steps) > 0 {
		c := with(about, steps)
		s.step(ctx, request.profile, at, c)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if stop := at.Stop(c); stop != nil {
			return stop, nil
		}
		last := c.Results[len(c.Results)-1]
		if c.Steps[len(c.Results)-1].Point == contractv1.Point_BIND && last.GetCode() == contractv1.Code_SUCCESS {
			if last.GetBound() {
				return nil, nil
			}
			request.annotations = last.GetAnnotations()
			break
		}
		if step := c.Steps[len(c.Results)-1]; step.Point == contractv1.Point_BIND && at.Info(step).Last {
			return &framework.Status{Point: step.Point, Info: at.Info(step), Code: last.GetCode(), Reasons: last.GetReasons()}, nil
		}
		if steps = nil; len(binders) > 0 {
			steps, binders = binders[:1], binders[1:]
		}
	}
	return nil, s.write(ctx, request)
}

// with is a call about the same with other steps.
func with(c *contractv1.CycleCall, steps []contractv1.CycleStep) *contractv1.CycleCall {
	next := *c
	next.Steps, next.Results = steps, nil
	return &next
}
