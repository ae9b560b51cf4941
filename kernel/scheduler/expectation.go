package scheduler

import (
	"context"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A pod that has its node and is not to be bound at once says so in
// status.nominatedNodeName (KEP-5278), so that nobody outside makes room for it
// elsewhere: one that waits for a permit, and one for which pre-bind plugins have
// work. Others are bound as soon as it would be written. The API takes the name back
// with the binding, the scheduler when the pod gives the node up.

// expectation is what an assumed pod's status says of its node.
type expectation struct {
	node  string
	tried <-chan struct{} // closed when it was written, or was not
	over  bool            // the pod gave the node up
}

// stands reports whether the pod still is to have the node.
func (e *expectation) stands() bool { return e != nil && !e.over }

// was reports whether the pod gave up this node.
func (e *expectation) was(node string) bool { return e != nil && e.over && e.node == node }

// written is closed when the API was told; nil: there is nothing to wait for.
func (e *expectation) written() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.tried
}

// expects has an assumed pod say which node it is to have. The cycle does not wait
// for that; the pod's binding does, or the name could come behind it.
func (s *Scheduler) expects(p *podEntry) {
	if s.report.status == nil || p.expected != nil || p.Object.Status.NominatedNodeName == p.Node {
		return
	}
	p.expected = &expectation{node: p.Node, tried: s.report.expect(p.Object, p.Node)}
}

// preBinds reports whether pre-bind plugins have something to do for an assumed
// pod. One that has to do with pods with claims alone writes what reserve plugins
// assumed of these: if that is nothing it has nothing to do.
func (p *podEntry) preBinds(at framework.Plugins) bool {
	for _, step := range at.StepsFor(p.shape.converted(), contractv1.Point_PRE_BIND) {
		if p.planned || at.Info(step).Pods != string(sdk.PodsWithClaims) {
			return true
		}
	}
	return false
}

// ended waits until a channel is closed, if there is one; it reports false when the
// context ended before.
func ended(ctx context.Context, done <-chan struct{}) bool {
	if done == nil {
		return ctx.Err() == nil
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// over reports whether there is nothing to wait for.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return done == nil
	}
}
