package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
)

// Each explains pods on a picture of a cluster, each as if it alone had come: what
// every predicate says of every node, and every priority of the nodes that fit; of
// a pod that fits nowhere, what the post-filter plugins would do. Nothing is done,
// so no pod is in another's way. Arguments and errors are those of
// Simulate. generation is where the generations of deltas begin, so that one
// source of policies can be asked about one picture after the other: far beyond
// those of the picture before.
func Each(ctx context.Context, cluster *Cluster, pods []*v1.Pod, profiles map[string]PolicySource, feed func(ReplicaSource), generation uint64, o explain.Options) ([]*explain.Explanation, error) {
	if len(pods) > SimulationMax {
		return nil, fmt.Errorf("explain: %d pods; at most %d", len(pods), SimulationMax)
	}
	s, err := onPicture(ctx, Config{BindWorkers: 1, Explain: 1, FirstGeneration: generation}, cluster, profiles, feed)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	out := make([]*explain.Explanation, len(pods))
	for i, p := range pods {
		p = p.DeepCopy()
		if p.UID == "" || s.pods[p.UID] != nil {
			p.UID = types.UID(fmt.Sprintf("explained-%d", i))
		}
		p.Spec.NodeName, p.DeletionTimestamp = "", nil
		complete(p)
		sh, err := newShape(p)
		if err != nil {
			return nil, err
		}
		s.setPod(p, sh, now.Add(time.Duration(i)))
		entry := s.pods[p.UID]
		if entry == nil {
			return nil, fmt.Errorf("explain pod %s/%s: %w", p.Namespace, p.Name, ErrUnknownPod)
		}
		if out[i], err = s.evaluate(ctx, entry, o); err != nil {
			return nil, fmt.Errorf("explain pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if out[i].Feasible == 0 && out[i].Nodes > 0 {
			if out[i].Preemption, err = s.rehearse(ctx, entry); err != nil {
				return nil, fmt.Errorf("explain pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
	}
	return out, nil
}

// rehearse asks the post-filter plugins as postFilter does, and does nothing of
// what they decide. The pod's class is up to date. Nil: there are none.
func (s *Scheduler) rehearse(ctx context.Context, p *podEntry) (*explain.Preemption, error) {
	profile := s.profiles[p.Object.Spec.SchedulerName]
	if !profile.at.Has(contractv1.Point_POST_FILTER) {
		return nil, nil
	}
	call := p.shape.class.Refusals(s.view)
	call.Pods, call.Standing = []*contractv1.QueuedPod{p.queued()}, s.standing(p)
	var out *explain.Preemption
	for _, step := range profile.at.Steps(contractv1.Point_POST_FILTER) {
		call.Steps = []contractv1.CycleStep{step}
		profile.at.Cycler.Cycle(ctx, call)
		if ctx.Err() != nil || len(call.Results) == 0 {
			return out, ctx.Err()
		}
		r := call.Results[0]
		if trial := r.GetTrial(); r.GetCode() == contractv1.Code_SUCCESS && trial != nil {
			var err error
			if r, err = s.tryOut(ctx, p, profile.at, step, trial); err != nil {
				return nil, err
			}
		}
		out = &explain.Preemption{Plugin: profile.at.Info(step).Name, Message: strings.Join(r.GetReasons(), ", ")}
		if r.GetCode() != contractv1.Code_SUCCESS {
			continue
		}
		nomination := r.GetNomination()
		if n := nomination.GetNode(); int(n) < len(s.snapshot.ByIndex) && s.snapshot.ByIndex[n] != nil {
			out.Node = s.snapshot.ByIndex[n].Name
		}
		for _, uid := range nomination.GetVictims() {
			if victim := s.pods[types.UID(uid)]; victim != nil {
				out.Victims = append(out.Victims, victim.Namespace+"/"+victim.Name)
			}
		}
		return out, nil
	}
	return out, nil
}
