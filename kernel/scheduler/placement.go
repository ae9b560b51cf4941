package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

const (
	// reviewEvery is how often permit plugins are asked about pods that wait.
	reviewEvery = 250 * time.Millisecond
)

// held is a pod that waits on its node for permit plugins.
type held struct {
	pod   *podEntry
	since time.Time
	// until is when each plugin's patience ends, by name; a plugin that allowed
	// the pod is taken out.
	until map[string]hold
}

// hold is one plugin's patience.
type hold struct {
	until time.Time
	wait  time.Duration
	// reasons say what the plugin waits for; it may give none.
	reasons []string
}

// expired says that the plugin's patience has ended, and what it waited for.
func (h hold) expired(plugin string) string {
	text := fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", h.wait, plugin)
	if len(h.reasons) > 0 {
		text += ": " + strings.Join(h.reasons, ", ")
	}
	return text
}

// assumes counts the pod on the node from now on.
func (s *Scheduler) assumes(p *podEntry, node *snapshot.Node) {
	p.assumed = true
	p.boundAt = time.Time{}
	p.planned, p.expected = false, nil
	s.assumed.add(p)
	s.nominated(p, "") // its room is its own now
	s.snapshot.AddPodTo(&p.Pod, node)
}

// place is assume for a profile that has plugins behind the decision: it asks
// reserve and permit plugins in one crossing a bundle and sends the pod on, or
// takes back what it did. False: others did something else with it meanwhile.
func (s *Scheduler) place(ctx context.Context, p *podEntry, profile *profile, node *snapshot.Node, d *explain.Decision) bool {
	s.assumes(p, node)
	if len(profile.at.StepsFor(p.shape.converted(), contractv1.Point_RESERVE, contractv1.Point_PERMIT)) == 0 {
		s.bind(ctx, p, profile)
		return true
	}
	// Plugins see the pod on its node, and the pods that they let go before.
	wait := &held{pod: p, since: d.Time, until: map[string]hold{}}
	if ctx = s.stays(ctx, wait, profile, func() { _ = s.flush(ctx) }); ctx == nil {
		return false
	}
	at := profile.at
	steps := at.StepsFor(p.shape.converted(), contractv1.Point_RESERVE, contractv1.Point_PERMIT)
	if len(steps) == 0 {
		s.bind(ctx, p, profile) // it turned to another policy
		return true
	}
	c := s.onNode(p, node.Name, steps)
	for k := range c.Steps {
		if c.Steps[k].Point == contractv1.Point_PERMIT {
			c.Steps[k].Waiting = s.waitingFor(at.Name(c.Steps[k]), profile, d.Time)
		}
	}
	p.reserved = true // whatever becomes of it now, it is taken back
	asking := ctx
	if ctx = s.propose(ctx, wait, profile, at, c); ctx == nil {
		return false
	}
	for k, r := range c.Results {
		if r.GetCode() == contractv1.Code_SUCCESS {
			s.assumeObjects(p, r.GetAssumed())
			p.planned = p.planned || len(r.GetAssumed()) > 0
		}
		if r.GetCode() == contractv1.Code_WAIT {
			name, patience := at.Name(c.Steps[k]), time.Duration(r.GetWaitNanoseconds())
			wait.until[name] = hold{d.Time.Add(patience), patience, r.GetReasons()}
			d.Outcomes = append(d.Outcomes, framework.Outcome{Point: framework.PointNames[contractv1.Point_PERMIT], Plugin: name, Code: contractv1.CodeNames[r.GetCode()], Reasons: r.GetReasons()})
		}
	}
	stop := at.Stop(c)
	switch {
	case stop != nil:
		s.unassume(p)
		s.refusedAt(p, stop, d)
	case len(wait.until) > 0:
		s.waiting[p.UID] = wait
		s.expects(p)
		if ctx != asking {
			s.orphans(ctx) // the profile may have turned to another policy
		}
	default:
		s.bind(ctx, p, profile)
	}
	for k, r := range c.Results {
		if c.Steps[k].Point == contractv1.Point_PERMIT {
			s.settleHeld(ctx, at.Name(c.Steps[k]), r.GetDecisions(), d.Time)
		}
	}
	return true
}

// stays has a pod keep its node while its profile's plugins are asked, and wait there if
// they are late. It returns the context to go on with; nil: the pod gave its node up
// meanwhile, or the run ends.
func (s *Scheduler) stays(ctx context.Context, w *held, profile *profile, ask func()) context.Context {
	s.begin(work{profile: profile, left: func() { s.waiting[w.pod.UID] = w }})
	ask()
	s.end()
	switch {
	case ctx.Err() == nil:
		return ctx
	case !overtaken(ctx) || s.waiting[w.pod.UID] != w:
		return nil
	}
	delete(s.waiting, w.pod.UID)
	return s.renewed(ctx)
}

// propose asks reserve and permit plugins about a pod on its node. Behind an answer that
// was late it goes on with the steps that are left. It returns what stays does.
func (s *Scheduler) propose(ctx context.Context, w *held, profile *profile, at framework.Plugins, c *contractv1.CycleCall) context.Context {
	name := w.pod.Object.Spec.SchedulerName
	for left := c; ; {
		asked := ctx
		if ctx = s.stays(ctx, w, profile, func() { s.step(asked, name, at, left) }); ctx == nil {
			return nil
		}
		if left != c {
			c.Results = append(c.Results, left.Results...)
		}
		if ctx == asked || len(c.Results) == len(c.Steps) || at.Stop(c) != nil {
			return ctx
		}
		left = with(c, c.Steps[len(c.Results):])
	}
}

// waitingFor lists the pods of a profile that wait for a plugin.
func (s *Scheduler) waitingFor(plugin string, profile *profile, now time.Time) []*contractv1.WaitingPod {
	var list []*contractv1.WaitingPod
	for uid, w := range s.waiting {
		if _, waits := w.until[plugin]; !waits || s.profiles[w.pod.Object.Spec.SchedulerName] != profile {
			continue
		}
		if e := s.snapshot.ByName[w.pod.Node]; e != nil && e.Object != nil {
			list = append(list, &contractv1.WaitingPod{Uid: string(uid), Node: e.Index, WaitingNanoseconds: int64(now.Sub(w.since))})
		}
	}
	slices.SortFunc(list, func(a, b *contractv1.WaitingPod) int { return int(b.WaitingNanoseconds - a.WaitingNanoseconds) })
	return list
}

// settleHeld takes in what a permit plugin decided about pods that wait for it, and did
// when it was asked.
func (s *Scheduler) settleHeld(ctx context.Context, plugin string, decisions []*contractv1.Decision, asked time.Time) {
	for _, decision := range decisions {
		w := s.waiting[types.UID(decision.GetUid())]
		if w == nil || w.since.After(asked) {
			continue
		}
		if _, waits := w.until[plugin]; !waits {
			continue
		}
		if decision.GetAllow() {
			s.allow(ctx, w, plugin)
			continue
		}
		reason := decision.GetReason()
		if reason == "" {
			reason = "rejected by plugin " + plugin
		}
		s.reject(w, plugin, reason)
	}
}

func (s *Scheduler) allow(ctx context.Context, w *held, plugin string) {
	if delete(w.until, plugin); len(w.until) > 0 {
		return
	}
	delete(s.waiting, w.pod.UID)
	s.deps.Metrics.waited(contractv1.CodeNames[contractv1.Code_SUCCESS], s.clock.Since(w.since))
	s.bind(ctx, w.pod, s.profiles[w.pod.Object.Spec.SchedulerName])
}

// reject ends a pod's wait: it gives up its node.
func (s *Scheduler) reject(w *held, plugin, reason string) {
	p := w.pod
	now := s.clock.Now()
	d := &explain.Decision{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Time: now, Attempt: p.attempts, Nodes: s.snapshot.Count}
	info := &contractv1.PointInfo{Name: plugin}
	if profile := s.profiles[p.Object.Spec.SchedulerName]; profile != nil {
		for i := range profile.at.Points[contractv1.Point_PERMIT] {
			if known := &profile.at.Points[contractv1.Point_PERMIT][i]; known.Name == plugin {
				info = known
			}
		}
	}
	s.deps.Metrics.waited(contractv1.CodeNames[contractv1.Code_UNSCHEDULABLE], now.Sub(w.since))
	s.unassume(p)
	if p.Object.DeletionTimestamp != nil {
		s.withdraw(p)
		return
	}
	s.refusedAt(p, &framework.Status{Point: contractv1.Point_PERMIT, Info: info, Code: contractv1.Code_UNSCHEDULABLE, Reasons: []string{reason}}, d)
	s.record.Keep(d)
}

// makeWay ends the wait of a pod whose place another takes: nobody refused it, so
// that it is tried again, as after an error.
func (s *Scheduler) makeWay(w *held, plugin string) {
	p, now := w.pod, s.clock.Now()
	s.deps.Metrics.waited(contractv1.CodeNames[contractv1.Code_ERROR], now.Sub(w.since))
	s.unassume(p)
	if p.Object.DeletionTimestamp != nil {
		s.withdraw(p)
		return
	}
	d := &explain.Decision{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Time: now, Attempt: p.attempts, Nodes: s.snapshot.Count,
		Message:  "waiting on permit for pod: preempted",
		Outcomes: []framework.Outcome{{Point: framework.PointNames[contractv1.Point_PERMIT], Plugin: plugin, Code: contractv1.CodeNames[contractv1.Code_ERROR], Reasons: []string{"preempted"}}},
	}
	s.withdraw(p)
	s.queue.retry(p, now)
	s.tell(p, reasonSchedulerError, d)
	s.record.Keep(d)
}

// review ends waits whose time is over and asks permit plugins about the others.
func (s *Scheduler) review(ctx context.Context, now time.Time) {
	if len(s.waiting) == 0 || now.Sub(s.reviewed) < reviewEvery {
		return
	}
	s.reviewed = now
	for _, w := range s.waiting {
		for plugin, h := range w.until {
			if !h.until.After(now) {
				s.reject(w, plugin, h.expired(plugin))
				break
			}
		}
	}
	if len(s.waiting) == 0 || s.flush(ctx) != nil {
		return
	}
	for _, profile := range s.profiles {
		if !s.asks(profile) {
			continue
		}
		for _, step := range profile.at.Steps(contractv1.Point_PERMIT_REVIEW) {
			name := profile.at.Name(step)
			step.Waiting = s.waitingFor(name, profile, now)
			if len(step.Waiting) == 0 {
				continue
			}
			c, at := &contractv1.CycleCall{Steps: []contractv1.CycleStep{step}}, profile.at
			s.begin(work{profile: profile})
			at.Cycler.Cycle(ctx, c)
			s.end()
			if stop := at.Stop(c); stop != nil {
				s.trouble(stop.Err(), now)
			} else if len(c.Results) > 0 {
				s.settleHeld(ctx, name, c.Results[0].GetDecisions(), now)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// reviewDue is when review has something to do.
func (s *Scheduler) reviewDue() (time.Time, bool) {
	return s.reviewed.Add(reviewEvery), len(s.waiting) > 0
}

// orphans lets pods go that wait for a plugin which is in their profile no more.
func (s *Scheduler) orphans(ctx context.Context) {
	for _, w := range s.waiting {
		profile := s.profiles[w.pod.Object.Spec.SchedulerName]
		for plugin := range w.until {
			there := profile != nil && slices.ContainsFunc(profile.at.Points[contractv1.Point_PERMIT], func(i contractv1.PointInfo) bool { return i.Name == plugin })
			if !there {
				s.allow(ctx, w, plugin)
			}
		}
	}
}

// takeBack notes that the reserve plugins are to take back what they gave to a
// pod, in reverse order, before anything else is asked.
func (s *Scheduler) takeBack(p *podEntry, node string) {
	delete(s.waiting, p.UID)
	p.preBinding = nil
	if !p.reserved {
		return
	}
	p.reserved = false
	s.forgetAssumed(p.UID)
	profile := s.profiles[p.Object.Spec.SchedulerName]
	if profile == nil || !profile.at.Has(contractv1.Point_RESERVE) {
		return
	}
	steps := profile.at.StepsFor(p.shape.converted(), contractv1.Point_UNRESERVE)
	slices.Reverse(steps)
	c := s.onNode(p, node, steps)
	s.unreserves = append(s.unreserves, unreserve{p.Object.Spec.SchedulerName, profile.at, c})
}

// step asks plugins at points that a pod with a node goes through, and counts what
// they took. Any goroutine may call it.
func (s *Scheduler) step(ctx context.Context, profile string, at framework.Plugins, c *contractv1.CycleCall) {
	began := time.Now()
	at.Cycler.Cycle(ctx, c)
	s.deps.Metrics.stepped(profile, at.Points, c, time.Since(began))
}

type unreserve struct {
	profile string
	at      framework.Plugins
	call    *contractv1.CycleCall
}

// unreserve makes the calls that takeBack noted.
func (s *Scheduler) unreserve(ctx context.Context) {
	calls := s.unreserves
	s.unreserves = nil
	for k, u := range calls {
		profile := s.profiles[u.profile]
		if !s.asks(profile) {
			s.unreserves = append(s.unreserves, u)
			continue
		}
		s.begin(work{profile: profile, left: func() { s.unreserves = append(s.unreserves, calls[k+1:]...) }})
		s.step(ctx, u.profile, u.at, u.call)
		s.end()
		for _, r := range u.call.Results {
			if r.GetCode() == contractv1.Code_ERROR && !contractv1.Ended(ctx) {
				s.trouble(fmt.Errorf("running Unreserve: %v", r.GetReasons()), s.clock.Now())
			}
		}
		if overtaken(ctx) {
			if rest := len(u.call.Results); rest < len(u.call.Steps) {
				u.call = with(u.call, u.call.Steps[rest:]) // those were not asked
				s.unreserves = append([]unreserve{u}, s.unreserves...)
			}
			return
		}
	}
}
