package scheduler

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// enterBatch is how many pods plugins are asked about at once on their way into
// the queue.
const enterBatch = 256

// sortKey is a pod's place in the queue as a plugin gave it.
type sortKey struct {
	number int64
	text   string
}

// again sends every pod that is to be tried through its entrance: another plugin
// may order or refuse it.
func (q *queue) again(now time.Time) {
	var all []*podEntry
	for _, h := range []*podHeap{&q.active, &q.backoff} {
		for i := range h.items {
			all = append(all, h.items[i].pod)
		}
	}
	all = append(all, q.doorstep...)
	all = append(all, q.heldBack...)
	for _, p := range all {
		p.keyed = false
		q.add(p, p.entry, now)
	}
}

// enter asks about the pods that stand at the queue's entrance, in batches: may
// they be tried, and where in the queue is their place.
func (s *Scheduler) enter(ctx context.Context) {
	if len(s.queue.doorstep) == 0 || s.flush(ctx) != nil {
		return
	}
	for {
		now := s.clock.Now()
		batch, n := map[*profile][]*podEntry{}, 0
		for _, p := range s.queue.doorstep {
			if n == enterBatch {
				break
			}
			if profile := s.profiles[p.Object.Spec.SchedulerName]; s.asks(profile) && !s.waitsOutside(profile, now) {
				batch[profile] = append(batch[profile], p)
				n++
			}
		}
		if n == 0 {
			return
		}
		for profile, pods := range batch {
			if s.enterBatch(ctx, profile, pods, now); ctx.Err() != nil {
				return
			}
		}
	}
}

// waitsOutside reports whether pods of a profile stay at the entrance, as it rests while
// others have something to decide.
func (s *Scheduler) waitsOutside(profile *profile, now time.Time) bool {
	return profile != nil && now.Before(profile.rests) && s.queue.active.Len() > 0
}

// enterBatch lets pods of a profile in, or not. They stay where they are until it is
// known which.
func (s *Scheduler) enterBatch(ctx context.Context, profile *profile, pods []*podEntry, now time.Time) {
	if profile == nil || profile.at.Cycler == nil {
		s.admit(pods, now)
		return
	}
	s.grant(profile, enterAgain, now)
	s.begin(work{profile: profile, again: enterAgain})
	refused := s.turnedAway(ctx, profile, pods)
	s.end()
	if ctx.Err() != nil {
		return
	}
	s.rested(profile, enterAgain, now)
	var admitted []*podEntry
	for _, p := range pods {
		if stop := refused[p]; stop != nil {
			s.queue.remove(p)
			s.turnAway(p, stop, now)
		} else {
			admitted = append(admitted, p)
		}
	}
	if s.keys(ctx, profile, admitted, now) {
		s.admit(admitted, now)
	}
}

// admit lets pods in that stand at the entrance of the queue.
func (s *Scheduler) admit(pods []*podEntry, now time.Time) {
	for _, p := range pods {
		s.queue.remove(p)
		s.queue.admit(p, now)
	}
}

// turnedAway asks the pre-enqueue plugins, those whose answer is that of a class
// once for all pods of it.
func (s *Scheduler) turnedAway(ctx context.Context, profile *profile, pods []*podEntry) map[*podEntry]*framework.Status {
	refused := map[*podEntry]*framework.Status{}
	steps := profile.at.Steps(contractv1.Point_PRE_ENQUEUE)
	byClass := slices.DeleteFunc(slices.Clone(steps), func(c contractv1.CycleStep) bool { return !profile.at.Info(c).ByClass })
	byPod := slices.DeleteFunc(steps, func(c contractv1.CycleStep) bool { return profile.at.Info(c).ByClass })
	if len(byClass) > 0 {
		var first []*podEntry
		generation, asked := profile.policy.Generation(), map[*shape]bool{}
		for _, p := range pods {
			if e := &p.shape.entrance; !asked[p.shape] && (e.policy != profile.policy || e.generation != generation || !e.asked) {
				asked[p.shape] = true
				first = append(first, p)
			}
		}
		answers := s.admissions(ctx, profile, byClass, first, shapeOnly)
		if ctx.Err() != nil {
			return nil
		}
		for _, p := range first {
			p.shape.entrance = entrance{policy: profile.policy, generation: generation, asked: true, stop: answers[p]}
		}
		for _, p := range pods {
			if stop := p.shape.entrance.stop; stop != nil {
				refused[p] = stop
			}
		}
		for _, p := range first {
			// What depends on more than the class, or failed, is asked again.
			if stop := p.shape.entrance.stop; stop != nil && !stop.Refused() || slices.ContainsFunc(byClass, func(c contractv1.CycleStep) bool {
				info := profile.at.Info(c)
				return len(info.Reads) > 0 || info.Scope == string(sdk.ScopeCluster)
			}) {
				p.shape.entrance.asked = false
			}
		}
	}
	if len(byPod) > 0 {
		rest := slices.DeleteFunc(slices.Clone(pods), func(p *podEntry) bool { return refused[p] != nil })
		maps.Copy(refused, s.admissions(ctx, profile, byPod, rest, (*podEntry).queued))
	}
	return refused
}

// entrance is what plugins said about all pods of a shape on their way into the
// queue, as long as that holds.
type entrance struct {
	policy     Policy
	generation uint64
	asked      bool // false: it is to be asked again
	stop       *framework.Status

	keyOf  Policy
	keyGen uint64
	key    sortKey
}

// shapeOnly is a pod without what tells it from others of its class.
func shapeOnly(p *podEntry) *contractv1.QueuedPod { return &contractv1.QueuedPod{Pod: p.shape.Message} }

// admissions asks pre-enqueue plugins about pods; it returns those that may not
// enter.
func (s *Scheduler) admissions(ctx context.Context, profile *profile, steps []contractv1.CycleStep, pods []*podEntry, as func(*podEntry) *contractv1.QueuedPod) map[*podEntry]*framework.Status {
	refused := map[*podEntry]*framework.Status{}
	if len(pods) == 0 {
		return refused
	}
	c := &contractv1.CycleCall{Steps: steps, Pods: queuedAll(pods, as)}
	profile.at.Cycler.Cycle(ctx, c)
	if ctx.Err() != nil {
		return nil
	}
	for k, r := range c.Results {
		info := profile.at.Info(c.Steps[k])
		for i, a := range r.GetPods() {
			if p := pods[i]; refused[p] == nil && a.GetCode() != contractv1.Code_SUCCESS && a.GetCode() != contractv1.Code_SKIP {
				refused[p] = &framework.Status{Point: contractv1.Point_PRE_ENQUEUE, Info: info, Code: a.GetCode(), Reasons: a.GetReasons()}
			}
		}
	}
	if stop := profile.at.Stop(c); stop != nil {
		for _, p := range pods {
			if refused[p] == nil {
				refused[p] = stop
			}
		}
	}
	return refused
}

// turnAway keeps a pod out of the queue. Its users are told nothing, as by
// kube-scheduler: it is not ready to be tried.
func (s *Scheduler) turnAway(p *podEntry, stop *framework.Status, now time.Time) {
	d := &explain.Decision{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Time: now, Attempt: p.attempts, Nodes: s.snapshot.Count,
		Message: stop.Reason(), Outcomes: []framework.Outcome{stop.Outcome()},
	}
	if stop.Refused() {
		p.seen = s.eventSeq
		s.queue.gate(p, framework.NewFailure([]framework.Rejector{framework.PointRejector(stop.Info, stop.Info.Scope, stop.Info.Scope == string(sdk.ScopeCluster))}))
	} else {
		d.Message = stop.Err().Error()
		s.trouble(stop.Err(), now)
		s.queue.hold(p, now)
	}
	s.record.Keep(d)
}

// keys asks for the places of pods that have none yet. Without an answer they
// are ordered among the others by priority. One that is late keeps nobody out: the pods
// are let in without it (false), and it counts for those that still wait then.
func (s *Scheduler) keys(ctx context.Context, profile *profile, pods []*podEntry, now time.Time) bool {
	if !profile.at.Has(contractv1.Point_QUEUE_SORT) {
		return true
	}
	step := profile.at.Steps(contractv1.Point_QUEUE_SORT)[:1]
	byClass, as := profile.at.Info(step[0]).ByClass, (*podEntry).queued
	if byClass {
		as = shapeOnly
	}
	generation := profile.policy.Generation()
	var fresh []*podEntry
	asked := map[*shape]bool{}
	for _, p := range pods {
		known := byClass && p.shape.entrance.keyOf == profile.policy && p.shape.entrance.keyGen == generation
		switch {
		case p.keyed:
		case known:
			p.key, p.keyed = p.shape.entrance.key, true
		case !byClass || !asked[p.shape]:
			asked[p.shape] = true
			fresh = append(fresh, p)
		}
	}
	if len(fresh) == 0 {
		return true
	}
	without := func() {
		for _, p := range pods {
			if !p.keyed {
				p.key = sortKey{number: -int64(p.priority)}
			}
		}
	}
	if profile.keyless > 0 {
		without() // the question before has no answer yet
		return true
	}
	shapes := make([]*shape, len(fresh))
	for i, p := range fresh {
		shapes[i] = p.shape
	}
	c, at, policy := &contractv1.CycleCall{Steps: step, Pods: queuedAll(fresh, as)}, profile.at, profile.policy
	s.begin(work{profile: profile, keyless: true, left: func() {
		without()
		s.admit(pods, now)
	}})
	at.Cycler.Cycle(ctx, c)
	s.end()
	var keys []*contractv1.SortKey
	if stop := at.Stop(c); stop != nil {
		s.trouble(stop.Err(), now)
	} else if len(c.Results) > 0 {
		keys = c.Results[0].GetKeys()
	}
	if ctx.Err() != nil {
		if overtaken(ctx) && profile.policy == policy {
			if byClass {
				for i, key := range keys[:min(len(keys), len(shapes))] {
					e := &shapes[i].entrance
					e.keyOf, e.keyGen, e.key = policy, generation, sortKey{key.GetNumber(), key.GetText()}
				}
				s.rekey(pods, func(_ int, p *podEntry) (sortKey, bool) {
					e := &p.shape.entrance
					return e.key, e.keyOf == policy && e.keyGen == generation
				})
			} else {
				s.rekey(fresh, func(i int, p *podEntry) (key sortKey, ok bool) {
					if ok = i < len(keys) && p.shape == shapes[i]; ok {
						key = sortKey{keys[i].GetNumber(), keys[i].GetText()}
					}
					return key, ok
				})
			}
		}
		return false
	}
	for i, p := range fresh {
		p.key = sortKey{number: -int64(p.priority)}
		if i < len(keys) {
			p.key, p.keyed = sortKey{keys[i].GetNumber(), keys[i].GetText()}, true
			if byClass {
				e := &p.shape.entrance
				e.keyOf, e.keyGen, e.key = profile.policy, generation, p.key
			}
		}
	}
	for _, p := range pods {
		if e := &p.shape.entrance; byClass && !p.keyed {
			p.key = sortKey{number: -int64(p.priority)}
			if e.keyOf == profile.policy && e.keyGen == generation {
				p.key, p.keyed = e.key, true
			}
		}
	}
	return true
}

// rekey puts pods where a late answer says, as far as they still wait and are what they
// were.
func (s *Scheduler) rekey(pods []*podEntry, keyOf func(int, *podEntry) (sortKey, bool)) {
	for i, p := range pods {
		if p.keyed || p.place != active && p.place != backingOff && p.place != heldBack {
			continue
		}
		if key, ok := keyOf(i, p); ok {
			p.key, p.keyed = key, true
			s.queue.fix(p)
		}
	}
}

func queuedAll(pods []*podEntry, as func(*podEntry) *contractv1.QueuedPod) []*contractv1.QueuedPod {
	out := make([]*contractv1.QueuedPod, len(pods))
	for i, p := range pods {
		out[i] = as(p)
	}
	return out
}

// before is the order of the active queue.
func (q *queue) before(a, b *turn) bool {
	if q.sorted {
		if a.pod.key.number != b.pod.key.number {
			return a.pod.key.number < b.pod.key.number
		}
		if c := strings.Compare(a.pod.key.text, b.pod.key.text); c != 0 {
			return c < 0
		}
		return a.stamp.Before(b.stamp)
	}
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.stamp.Before(b.stamp)
}
