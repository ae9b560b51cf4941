package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Evicter ends a pod in favour of another: it sets the condition on the victim
// and deletes it, if it is still the same (UID).
type Evicter func(ctx context.Context, victim *v1.Pod, condition *v1.PodCondition) error

// Nominator writes status.nominatedNodeName of a pod.
type Nominator func(ctx context.Context, pod *v1.Pod, node string) error

// postFilter asks what could be done for a pod that fits nowhere. The pod stays
// parked; it comes back when the victims have gone.
func (s *Scheduler) postFilter(ctx context.Context, p *podEntry, profile *profile, d *Decision) {
	if profile == nil || !profile.at.has(contractv1.Point_POST_FILTER) || p.shape.class == nil {
		return
	}
	c := p.shape.class.refusals(s.snapshot)
	c.Pods = []*contractv1.QueuedPod{p.queued()}
	// One plugin after the other, until one succeeds. What they say against it is
	// added to the message as it is, joined by commas, as kube-scheduler does.
	var reasons []string
	defer func() {
		if len(reasons) > 0 {
			d.Message += " " + strings.Join(reasons, ", ")
		}
	}()
	for _, step := range profile.at.steps(contractv1.Point_POST_FILTER) {
		c.Steps = []contractv1.CycleStep{step}
		profile.at.cycler.Cycle(ctx, c)
		if ctx.Err() != nil || len(c.Results) == 0 {
			return
		}
		info := &profile.at.points[contractv1.Point_POST_FILTER][step.Plugin]
		r := c.Results[0]
		outcome := &stopped{contractv1.Point_POST_FILTER, info, r.GetCode(), r.GetReasons()}
		switch r.GetCode() {
		case contractv1.Code_SUCCESS:
			if err := s.nominate(ctx, p, r.GetNomination()); err != nil {
				outcome.code, outcome.reasons = contractv1.Code_ERROR, []string{err.Error()}
				s.trouble(fmt.Errorf("running PostFilter plugin %q: %w", info.Name, err), d.Time)
				d.Outcomes = append(d.Outcomes, outcome.outcome())
				continue
			}
			d.Outcomes, reasons = append(d.Outcomes, outcome.outcome()), nil
			return
		case contractv1.Code_ERROR:
			s.trouble(outcome.err(), d.Time)
			d.Outcomes = append(d.Outcomes, outcome.outcome())
		case contractv1.Code_SKIP:
		default:
			d.Outcomes = append(d.Outcomes, outcome.outcome())
			if r.GetCode() == contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE {
				reasons = r.GetReasons()
				return
			}
			reasons = append(reasons, r.GetReasons()...)
		}
	}
}

// refusals are all nodes with what refused the class, as a call without steps.
func (c *class) refusals(s *snapshot) *contractv1.CycleCall {
	call := &contractv1.CycleCall{Class: c.id}
	type verdict struct {
		predicate int32
		id        uint32
	}
	at := map[verdict]uint32{}
	for n, e := range s.byIndex {
		if e == nil {
			continue
		}
		v := verdict{predicate: c.fail[n]}
		if v.predicate >= 0 {
			v.id = c.verdicts[v.predicate][n]
		}
		k, known := at[v]
		if !known {
			r := &contractv1.Refusal{}
			switch {
			case v.predicate >= 0:
				r.Plugin, r.Reasons = c.predicates[v.predicate].Name, c.policy.Reasons(int(v.predicate), v.id)
			case c.narrowing.stop != nil:
				r.Plugin, r.Reasons = c.narrowing.stop.info.Name, c.narrowing.stop.reasons
			case len(c.narrowing.by) > 0:
				r.Plugin, r.Reasons = c.narrowing.by[0], []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", c.narrowing.by)}
			}
			k = uint32(len(call.Refusals))
			call.Refusals, at[v] = append(call.Refusals, r), k
		}
		call.Nodes, call.Refused = append(call.Nodes, uint32(n)), append(call.Refused, k)
	}
	return call
}

// nominate evicts the victims and notes the node, beside the cycle. A plugin may
// name pods of that node with a lower priority than the pod, and no others.
func (s *Scheduler) nominate(ctx context.Context, p *podEntry, n *contractv1.Nomination) error {
	if s.deps.Evict == nil || s.deps.Nominate == nil {
		return fmt.Errorf("this scheduler evicts nobody")
	}
	if int(n.GetNode()) >= len(s.snapshot.byIndex) || s.snapshot.byIndex[n.GetNode()] == nil {
		return fmt.Errorf("it nominated node %d, which is not there", n.GetNode())
	}
	node := s.snapshot.byIndex[n.GetNode()]
	if never := p.pod.Spec.PreemptionPolicy; never != nil && *never == v1.PreemptNever && len(n.GetVictims()) > 0 {
		return fmt.Errorf("it named victims for a pod whose preemptionPolicy is Never")
	}
	var victims []*v1.Pod
	for _, uid := range n.GetVictims() {
		victim := node.pods[types.UID(uid)]
		switch {
		case victim == nil:
			return fmt.Errorf("it named victim %s, which is not on node %s", uid, node.name)
		case victim.priorityNow() >= p.priorityNow():
			return fmt.Errorf("it named victim %s/%s, whose priority %d is not below %d", victim.namespace, victim.name, victim.priorityNow(), p.priorityNow())
		case slices.Contains(victims, victim.pod):
		case victim.pod.DeletionTimestamp == nil:
			victims = append(victims, victim.pod)
		}
	}
	preemptor, name := p.pod, node.name
	s.bindings.Go(func() {
		for _, victim := range victims {
			write, cancel := context.WithTimeout(ctx, writeTimeout)
			err := s.deps.Evict(write, victim, &v1.PodCondition{
				Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
				Message: preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod", ObservedGeneration: victim.Generation,
			})
			cancel()
			if err != nil {
				s.log.Warn("victim not evicted", "pod", victim.Namespace+"/"+victim.Name, "err", err)
				return
			}
			if s.deps.Events != nil {
				s.deps.Events.Eventf(victim, preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", preemptor.UID, name)
			}
		}
		write, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := s.deps.Nominate(write, preemptor, name); err != nil && ctx.Err() == nil {
			s.log.Warn("nominated node not written", "pod", preemptor.Namespace+"/"+preemptor.Name, "err", err)
		}
	})
	return nil
}

func (p *podEntry) priorityNow() int32 {
	if p.pod.Spec.Priority == nil {
		return 0
	}
	return *p.pod.Spec.Priority
}
