package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// pointPolicy is a policy as far as it has plugins at points of the cycle
// beside predicates and priorities. The zero value has none.
type pointPolicy struct {
	cycler contractv1.Cycler
	points contractv1.Points
}

func pointsOf(policy Policy) pointPolicy {
	if cycler, ok := policy.(contractv1.Cycler); ok {
		if points := cycler.Points(); len(points) > 0 {
			return pointPolicy{cycler, points}
		}
	}
	return pointPolicy{}
}

// has reports whether a plugin is asked at one of the points.
func (p pointPolicy) has(points ...contractv1.Point) bool {
	if p.cycler == nil {
		return false
	}
	for _, at := range points {
		if len(p.points[at]) > 0 {
			return true
		}
	}
	return false
}

// steps are one step for each plugin at the points.
func (p pointPolicy) steps(points ...contractv1.Point) []contractv1.CycleStep {
	var steps []contractv1.CycleStep
	for _, at := range points {
		for i := range p.points[at.Of()] {
			steps = append(steps, contractv1.CycleStep{Point: at, Plugin: i})
		}
	}
	return steps
}

func (p pointPolicy) name(step contractv1.CycleStep) string { return p.info(step).Name }

// info describes the plugin of a step.
func (p pointPolicy) info(step contractv1.CycleStep) *contractv1.PointInfo {
	return &p.points[step.Point.Of()][step.Plugin]
}

// Outcome is what a plugin at a point of the cycle said that kept a pod from
// its node, held it up, or gave it one.
type Outcome struct {
	Point   string   `json:"point"` // as a profile names it: preFilter, permit …
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"` // as the scheduling framework names it: Unschedulable, Wait …
	Reasons []string `json:"reasons,omitempty"`
}

// pointNames are the points as profiles name them.
var pointNames = map[contractv1.Point]string{
	contractv1.Point_PRE_ENQUEUE: "preEnqueue", contractv1.Point_QUEUE_SORT: "queueSort", contractv1.Point_PRE_FILTER: "preFilter",
	contractv1.Point_POST_FILTER: "postFilter", contractv1.Point_PRE_SCORE: "preScore", contractv1.Point_RESERVE: "reserve",
	contractv1.Point_VICTIMS: "postFilter", contractv1.Point_CHOOSE: "postFilter", contractv1.Point_QUEUEING_HINT: "queueingHint",
	contractv1.Point_UNRESERVE: "reserve", contractv1.Point_PERMIT: "permit", contractv1.Point_PERMIT_REVIEW: "permit",
	contractv1.Point_PRE_BIND: "preBind", contractv1.Point_BIND: "bind", contractv1.Point_POST_BIND: "postBind",
}

// pointTitles are the points as kube-scheduler's errors name them.
func pointTitle(at contractv1.Point) string {
	name := pointNames[at]
	return strings.ToUpper(name[:1]) + name[1:]
}

var codeNames = contractv1.CodeNames

// stopped is the answer that ended the steps of a call.
type stopped struct {
	point   contractv1.Point
	info    *contractv1.PointInfo
	code    contractv1.Code
	reasons []string
}

// stop returns what ended the steps of a call, or nil.
func (p pointPolicy) stop(c *contractv1.CycleCall) *stopped {
	if len(c.Results) == 0 {
		return nil
	}
	step, last := c.Steps[len(c.Results)-1], c.Results[len(c.Results)-1]
	if !step.Point.Stops(last.GetCode()) {
		return nil
	}
	return &stopped{step.Point, &p.points[step.Point.Of()][step.Plugin], last.GetCode(), last.GetReasons()}
}

func (s *stopped) outcome() Outcome {
	return Outcome{Point: pointNames[s.point], Plugin: s.info.Name, Code: codeNames[s.code], Reasons: s.reasons}
}

// reason is the answer in words.
func (s *stopped) reason() string {
	if len(s.reasons) == 0 && s.code == contractv1.Code_SKIP {
		return "it skips the pod, and no other plugin binds: add " + DefaultBinder + " to the profile's bind"
	}
	if len(s.reasons) == 0 {
		return "refused by plugin " + s.info.Name
	}
	return strings.Join(s.reasons, ", ")
}

// counts are its reasons as those of one node.
func (s *stopped) counts() map[string]int {
	counts := map[string]int{}
	for _, reason := range s.reasons {
		counts[reason]++
	}
	if len(counts) == 0 {
		counts[s.reason()] = 1
	}
	return counts
}

// refused reports whether the plugin refused the pod; otherwise it failed.
func (s *stopped) refused() bool {
	return s.code == contractv1.Code_UNSCHEDULABLE || s.code == contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE
}

// err is the answer as kube-scheduler words a plugin's error.
func (s *stopped) err() error {
	return fmt.Errorf("running %s plugin %q: %s", pointTitle(s.point), s.info.Name, s.reason())
}

// failure is that of a pod which the plugin refused. Of one that says nothing of
// events, whatever changes the cluster may help, also pods that come to be.
func (s *stopped) failure() *failure {
	return newFailure([]rejector{rejectionAt(s.info, string(sdk.ScopeCluster), true)})
}

// queued is the pod with its name, as plugins at points see it.
func (p *podEntry) queued() *contractv1.QueuedPod {
	q := &contractv1.QueuedPod{
		Pod:         p.shape.Occupant(p.name, string(p.uid), ""),
		CreatedUnix: p.pod.CreationTimestamp.Unix(), Attempts: uint32(p.attempts),
	}
	if !p.since.IsZero() {
		q.QueuedUnixNano = p.since.UnixNano()
	}
	return q
}

// onNode is a call about a pod and the node that it has.
func (s *Scheduler) onNode(p *podEntry, node string, steps []contractv1.CycleStep) *contractv1.CycleCall {
	c := &contractv1.CycleCall{Steps: steps, Pods: []*contractv1.QueuedPod{p.queued()}, NodeName: node}
	if e := s.snapshot.byName[node]; e != nil && e.node != nil {
		c.Node, c.HasNode = e.index, true
	}
	return c
}

// refusedAt parks or retries a pod that a plugin kept from its node.
func (s *Scheduler) refusedAt(p *podEntry, stop *stopped, d *Decision) {
	d.Node = ""
	s.withdraw(p)
	d.Outcomes = append(d.Outcomes, stop.outcome())
	if stop.refused() {
		d.Message = unfit(1, stop.counts())
		s.queue.park(p, stop.failure(), d.Time)
		if p.changed != 0 && p.wantsOwn(contractv1.Action(p.changed&^ownChange)) {
			s.queue.add(p, entry{event: eventPodUpdate}, d.Time)
		}
		s.tell(p, reasonUnschedulable, d)
		return
	}
	d.Message = stop.err().Error()
	s.queue.retry(p, d.Time)
	s.tell(p, reasonSchedulerError, d)
}

// repoint takes in which points the profiles have, when one turned to another
// policy: a queue that was in another order is put in order anew.
func (s *Scheduler) repoint(ctx context.Context) {
	before := s.queue.entering
	s.queue.entering, s.queue.sorted = false, false
	for _, p := range s.profiles {
		p.at = pointPolicy{}
		if p.policy == nil {
			continue
		}
		p.at = pointsOf(p.policy)
		s.queue.entering = s.queue.entering || p.at.has(contractv1.Point_PRE_ENQUEUE, contractv1.Point_QUEUE_SORT)
		s.queue.sorted = s.queue.sorted || p.at.has(contractv1.Point_QUEUE_SORT)
	}
	s.pointed = false
	for _, p := range s.profiles {
		s.pointed = s.pointed || p.at.cycler != nil
	}
	if before || s.queue.entering {
		s.queue.again(s.clock.Now())
	}
	s.orphans(ctx)
}

const troubleWords = "a plugin at a point of the cycle failed"

// trouble logs what nobody else is told, once in a while.
func (s *Scheduler) trouble(err error, now time.Time) {
	if now.Sub(s.troubled) >= troubleEvery {
		s.troubled = now
		s.log.Warn(troubleWords, "err", err)
	}
}
