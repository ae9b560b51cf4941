package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// evictions bounds the victims that are evicted at once.
const evictions = 64

// preemption is how the eviction of a pod's victims ended.
type preemption struct {
	uid types.UID
	err error
}

// preempt evicts the victims beside the cycle and keeps the room for the pod,
// which is not tried again before that is done (KEP-4832). A plugin may name pods
// of that node with a lower priority than the pod, and no others. asked: extenders have said
// what they think of it.
func (s *Scheduler) preempt(ctx context.Context, p *podEntry, plugin string, n *contractv1.Nomination, asked bool) error {
	if s.deps.Evict == nil || s.deps.Status == nil {
		return errors.New("preemption is not configured")
	}
	if int(n.GetNode()) >= len(s.snapshot.ByIndex) || s.snapshot.ByIndex[n.GetNode()] == nil {
		return fmt.Errorf("it nominated node %d, which is not there", n.GetNode())
	}
	node := s.snapshot.ByIndex[n.GetNode()]
	victims, err := s.victimsOf(p, node, n.GetVictims())
	if err != nil {
		return err
	}
	if extenders := s.preempting(p.Object); !asked && len(extenders) > 0 && len(victims) > 0 {
		named := []*contractv1.Candidate{{Node: n.GetNode(), Victims: n.GetVictims()}}
		left, err := s.extendersTrim(ctx, p.Object, extenders, named)
		if err != nil {
			return err
		}
		k := slices.IndexFunc(left, func(c *contractv1.Candidate) bool { return c.GetNode() == n.GetNode() })
		if k < 0 {
			return errors.New(noCandidate)
		}
		if victims, err = s.victimsOf(p, node, left[k].GetVictims()); err != nil {
			return err
		}
	}
	if len(victims) > 0 {
		s.counts.victims.Observe(float64(len(victims)))
	}
	// Pods with a lower priority that count on the node are to look elsewhere.
	for _, other := range slices.Clone(s.snapshot.Nominees[node.Name]) {
		if other != &p.Pod && other.PriorityNow() < p.PriorityNow() {
			s.withdraw(s.pods[other.UID])
		}
	}
	s.nominated(p, node.Name)
	name := node.Name
	p.unwritten = &name
	var evict []*v1.Pod
	p.victims = map[*podEntry]bool{}
	for _, victim := range victims {
		switch w := s.waiting[victim.UID]; {
		case victim.Object.DeletionTimestamp != nil:
		case w != nil:
			s.makeWay(w, plugin)
			s.evicted(victim.Object, p.Object, name, " (in kube-scheduler memory).")
		case victim.preBinding.yields(plugin):
			p.victims[victim], victim.evictor = true, p
			s.evicted(victim.Object, p.Object, name, " (in kube-scheduler memory).")
		default:
			p.victims[victim], victim.evictor = true, p
			evict = append(evict, victim.Object)
		}
	}
	p.preempting = len(p.victims) > 0
	if len(evict) == 0 {
		p.evicted = p.preempting // there is nothing to ask for
		return nil
	}
	preemptor, ctx := p.Object, beside(ctx)
	s.bindings.Go(func() {
		began := time.Now()
		result := preemption{uid: preemptor.UID, err: s.evict(ctx, evict, preemptor, name)}
		s.deps.Metrics.evicted(began, result.err)
		select {
		case s.preempted <- result:
		case <-ctx.Done():
		}
	})
	return nil
}

// victimsOf are the pods that a plugin named.
func (s *Scheduler) victimsOf(p *podEntry, node *snapshot.Node, uids []string) ([]*podEntry, error) {
	if never := p.Object.Spec.PreemptionPolicy; never != nil && *never == v1.PreemptNever && len(uids) > 0 {
		return nil, errors.New("it named victims for a pod whose preemptionPolicy is Never")
	}
	var victims []*podEntry
	for _, uid := range uids {
		victim := node.Pods[types.UID(uid)]
		switch {
		case victim == nil:
			return nil, fmt.Errorf("it named victim %s, which is not on node %s", uid, node.Name)
		case victim.PriorityNow() >= p.PriorityNow():
			return nil, fmt.Errorf("it named victim %s/%s, whose priority %d is not below %d", victim.Namespace, victim.Name, victim.PriorityNow(), p.PriorityNow())
		case !slices.Contains(victims, s.pods[victim.UID]):
			victims = append(victims, s.pods[victim.UID])
		}
	}
	return victims, nil
}

// evict ends pods, all at once as far as the bound allows.
func (s *Scheduler) evict(ctx context.Context, victims []*v1.Pod, preemptor *v1.Pod, node string) error {
	failures := make([]error, len(victims))
	var group sync.WaitGroup
	for k, victim := range victims {
		group.Go(func() {
			select {
			case s.evicting <- struct{}{}:
				defer func() { <-s.evicting }()
			case <-ctx.Done():
				return
			}
			write, cancel := context.WithTimeout(ctx, writeTimeout)
			defer cancel()
			err := s.deps.Evict(write, victim, &v1.PodCondition{
				Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
				Message: preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod", ObservedGeneration: victim.Generation,
			})
			switch {
			case err == nil:
				s.evicted(victim, preemptor, node, "")
			case !apierrors.IsNotFound(err):
				failures[k] = fmt.Errorf("evict pod %s/%s: %w", victim.Namespace, victim.Name, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func (s *Scheduler) evicted(victim, preemptor *v1.Pod, node, how string) {
	if s.deps.Events != nil {
		s.report.of(preemptor).Eventf(victim, preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v%s", preemptor.UID, node, how)
	}
}

// settlePreemption lets the pod be tried again whose victims were evicted. If that
// failed it is tried at once: it may never happen that they go.
func (s *Scheduler) settlePreemption(r preemption) {
	p := s.pods[r.uid]
	if r.err != nil {
		s.log.Warn("victims not evicted", "preemptor", r.uid, "err", r.err)
	}
	if p == nil || !p.preempting {
		return
	}
	p.evicted = true
	if r.err != nil {
		p.recalled = entry{event: eventForced, at: true}
		clear(p.victims)
	}
	s.settlePreemptor(p)
}

// leaves notes that a pod is on its way out, if it is somebody's victim.
func (s *Scheduler) leaves(victim *podEntry) {
	if p := victim.evictor; p != nil {
		victim.evictor = nil
		delete(p.victims, victim)
		s.settlePreemptor(p)
	}
}

// settlePreemptor ends a pod's wait once its victims were evicted and seen to
// leave: before that it would find them where they were.
func (s *Scheduler) settlePreemptor(p *podEntry) {
	if !p.preempting || !p.evicted || len(p.victims) > 0 {
		return
	}
	p.preempting, p.evicted, p.victims = false, false, nil
	recalled := p.recalled
	p.recalled = entry{}
	if recalled.event != "" && p.place == unschedulable {
		s.queue.add(p, recalled, s.clock.Now())
	}
}

// withdraw takes a pod's nomination back, here and in the API.
func (s *Scheduler) withdraw(p *podEntry) {
	if p.nominated == "" && p.Object.Status.NominatedNodeName == "" && !p.expected.stands() {
		return
	}
	written := p.Object.Status.NominatedNodeName != "" || p.unwritten == nil || p.expected.stands()
	if p.expected != nil {
		p.expected.over = true
	}
	s.nominated(p, "")
	p.unwritten = nil
	if none := ""; written {
		p.unwritten = &none
		s.report.nominate(p)
	}
}
