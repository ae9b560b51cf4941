package scheduler

import (
	"context"
	"math/rand/v2"
	"time"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Pods of one class that wait behind each other are decided about together. The
// nodes for them are chosen by a prediction (Class.Predict) of what becomes of each
// node's total when it gets a pod; then all are told to the plugins, which are asked
// about these nodes in one crossing. Where a total is another than was predicted, the
// decisions behind it are taken back before anybody heard of them, the random
// numbers that they drew included: what is left is what one decision after the other
// comes to, to the last node. It is what kube-scheduler's opportunistic batching
// (KEP-5598) is for, without a node being ruled out before anybody asked about it.

// maxBatch bounds how many pods are decided about at once.
const maxBatch = 64

// batchSizer is how many pods of a class are decided about at once: twice as many as confirmed
// the last time, and none for a while after none did.
type batchSizer struct{ confirmed, rest, rests int }

func (p *batchSizer) next() int {
	if p.rest > 0 {
		p.rest--
		return 0
	}
	return min(max(4, 2*p.confirmed), maxBatch)
}

// settle takes in how many confirmed; where none did, the next attempts are apart twice
// as far as the ones before.
func (p *batchSizer) settle(confirmed int) {
	p.confirmed = confirmed
	if confirmed > 0 {
		p.rests = 0
		return
	}
	p.rests = min(max(2, 2*p.rests), 64)
	p.rest = p.rests
}

// batched is a pod that is decided about together with others.
type batched struct {
	pod      *podEntry
	node     *snapshot.Node
	drawn    rand.PCG          // the random numbers before its own
	taken    resultcache.Taken // its node
	evidence *resultcache.DecisionSnapshot
}

// scheduleBatch decides about the pods behind p, which was just placed on a node with a
// total of d.Total, as far as they are of its class.
func (s *Scheduler) scheduleBatch(ctx context.Context, p *podEntry, profile *profile, node *snapshot.Node, d *explain.Decision) {
	c := p.shape.class
	if !s.mayBatch(ctx, p, profile, node) {
		return
	}
	began := s.clock.Now()
	first := c.Predictor().Predict(node.Index, len(node.Pods)-1) // it has the pod already
	run := s.chooseBatch(c, p, first, p.shape.sizer.next())
	defer func() {
		s.takenAt[first.Node] = 0
		for i := range run {
			s.takenAt[run[i].taken.Node] = 0
		}
		clear(run)
	}()
	if len(run) == 0 {
		return
	}
	feasible, best := len(c.Feasible()), c.Totals().Best()
	for _, r := range run {
		s.assumes(r.pod, r.node)
	}
	s.begin(work{profile: profile, again: decideAgain, pod: p, batch: run, first: first.Node})
	defer s.end()
	confirmed := 0
	if s.flush(ctx) == nil && s.verify(ctx, c, profile) {
		as := c.Predictor().Observe(first, best)
		for confirmed < len(run) && as {
			as = c.Predictor().Observe(run[confirmed].taken, best)
			confirmed++
		}
		for i := range run[confirmed:] {
			c.Predictor().Observe(run[confirmed+i].taken, best)
		}
		correct(c, s.takenAt, run[:confirmed])
	}
	if ctx.Err() != nil {
		return
	}
	p.shape.sizer.settle(confirmed)
	s.takeBackBatch(run[confirmed:])
	now := s.clock.Now()
	if confirmed > 0 {
		profile.metrics.decided(profile.policy, now.Sub(began)/time.Duration(confirmed), feasible, confirmed)
	}
	for i := range run[:confirmed] {
		r := &run[i]
		r.pod.began = began
		r.pod.seen, r.pod.except, r.pod.changed = s.eventSeq, 0, 0
		s.decisions++
		s.record.Keep(&explain.Decision{
			Namespace: r.pod.Namespace, Name: r.pod.Name, UID: r.pod.UID, Time: now, Attempt: r.pod.attempts,
			Nodes: d.Nodes, Feasible: feasible, Node: r.node.Name, Total: best, Versions: d.Versions, Snapshot: r.evidence,
		})
	}
	p.shape.used = s.decisions
	for i := range run[:confirmed] {
		if !s.send(ctx, s.request(run[i].pod, run[i].node.Name)) {
			return
		}
	}
}

// mayBatch reports whether decisions about pods of a class depend on each other by
// nothing but the nodes that they take, and nobody has to hear of each by itself.
func (s *Scheduler) mayBatch(ctx context.Context, p *podEntry, profile *profile, node *snapshot.Node) bool {
	c := p.shape.class
	switch {
	case c == nil || !p.assumed:
		return false
	case s.oneByOne || s.queue.active.Len() == 0 || !alike(s.queue.active.items[0].pod, p):
		return false
	case s.deps.Tracer != nil || len(s.deps.Extenders) > 0 || len(s.snapshot.Nominees) > 0 || len(s.unreserves) > 0:
		return false
	case profile.next != nil || !c.Predictor().ChoseByTotal(profile.policy, node.Index):
		return false // the node was not chosen by its total
	case !c.Predictor().UpTo(s.snapshot.Log.End()-1) || len(s.snapshot.Pending) != 1:
		return false // something else happened
	}
	if followers := s.followers.Load(); followers != nil && len(*followers) > 0 {
		return false
	}
	at := &profile.at
	if at.Has(contractv1.Point_PRE_SCORE) || len(at.StepsFor(p.shape.converted(), pointsBehind...)) > 0 {
		return false
	}
	for i := range at.Points[contractv1.Point_PRE_FILTER] {
		if info := &at.Points[contractv1.Point_PRE_FILTER][i]; info.Scope == string(sdk.ScopeCluster) && framework.Concerns(p.shape.Pod, info.Pods) {
			return false
		}
	}
	s.begin(work{profile: profile})
	defer s.end()
	return c.Independent(ctx) && ctx.Err() == nil
}

// pointsBehind are those that a pod goes through once it has a node.
var pointsBehind = []contractv1.Point{
	contractv1.Point_RESERVE, contractv1.Point_PERMIT, contractv1.Point_PRE_BIND, contractv1.Point_BIND, contractv1.Point_POST_BIND,
}

// alike reports whether a pod that is next is as another one to plugins, and goes
// the ordinary way.
func alike(next, p *podEntry) bool {
	return next.shape == p.shape && next.Object.Spec.SchedulerName == p.Object.Spec.SchedulerName &&
		next.nominated == "" && next.Object.DeletionTimestamp == nil
}

// chooseBatch takes up to n pods of p's class from the head of the queue and gives each
// the node that it gets if those before it, the first of all among them, become what
// is predicted. So many of the best are left that nobody has to know yet which comes
// after them.
func (s *Scheduler) chooseBatch(c *resultcache.Class, p *podEntry, first resultcache.Taken, n int) []batched {
	run := s.batch[:0]
	if missing := len(s.snapshot.ByIndex) - len(s.takenAt); missing > 0 {
		s.takenAt = append(s.takenAt, make([]int32, missing)...)
	}
	s.takenAt[first.Node] = 1
	var before *resultcache.DecisionSnapshot
	for last := first; len(run) < n && last.Prediction != resultcache.Higher; last = run[len(run)-1].taken {
		if last.Prediction == resultcache.Lower {
			c.Predictor().DropTotal(last.Node)
		}
		if c.Totals().Tied() <= resultcache.TopNodes+1 || s.queue.active.Len() == 0 || !alike(s.queue.active.items[0].pod, p) {
			break
		}
		drawn := *s.source
		index := c.Totals().Nth(s.random.IntN(c.Totals().Tied()))
		if s.takenAt[index] != 0 {
			*s.source = drawn // a second pod for it: that has to be asked
			break
		}
		r := batched{pod: s.queue.popActive(), drawn: drawn, node: s.snapshot.ByIndex[index]}
		r.taken = c.Predictor().Predict(index, len(r.node.Pods))
		if s.cfg.Explain > 0 {
			r.evidence = c.DecisionSnapshotAfter(before, s.view, index, c.Totals().Best())
			before = r.evidence
		}
		run = append(run, r)
		s.takenAt[index] = int32(1 + len(run))
	}
	s.batch = run
	return run
}

// correct brings the scores in the evidence of each decision up to date with the
// nodes that got a pod before it and have the best total still. TakenAt says when
// each got one: 1 the first of all, from 2 on those of the run, 0 none.
func correct(c *resultcache.Class, takenAt []int32, run []batched) {
	for i := range run {
		e := run[i].evidence
		if e == nil {
			return
		}
		for k, l := range e.Top {
			if at := takenAt[l.Node]; at > 0 && int(at) < i+2 {
				if i > 0 && int(at) < i+1 && run[i-1].evidence.Top[k].Node == l.Node {
					e.Scores[k] = run[i-1].evidence.Scores[k]
				} else {
					e.Scores[k] = c.ScoresOf(l.Node)
				}
			}
		}
	}
}

// verify brings the class up to date with the pods that are assumed ahead; it reports
// whether totals are comparable with those that they were chosen by.
func (s *Scheduler) verify(ctx context.Context, c *resultcache.Class, profile *profile) bool {
	if profile.policy != c.Policy() {
		return false
	}
	c.Time(profile.metrics)
	defer c.Time(nil)
	return c.Predictor().VerifyTotals(ctx, s.view)
}

// takeBackBatch undoes decisions that do not stand, as if they had not been made.
func (s *Scheduler) takeBackBatch(run []batched) {
	for i := range run {
		p := run[i].pod
		p.assumed = false
		s.assumed.remove(p)
		s.snapshot.RemovePod(&p.Pod)
		s.queue.unpop(p)
	}
	if len(run) > 0 {
		*s.source = run[0].drawn
	}
}
