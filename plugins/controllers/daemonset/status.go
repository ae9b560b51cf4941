package daemonset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusRetries is how often a status is written anew on a fresh object.
const statusRetries = 1

// newStatus counts the nodes. observed says that this generation was acted on.
func (r *run) newStatus(ctx context.Context, observed bool) (appsv1.DaemonSetStatus, error) {
	s := *r.ds.Status.DeepCopy()
	s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled = 0, 0, 0
	s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable = 0, 0, 0
	if observed {
		s.ObservedGeneration = r.ds.Generation
	}
	pods, err := r.podsByNode(ctx, false)
	if err != nil {
		return s, err
	}
	for _, node := range r.nodes {
		run, _ := r.placement.on(node)
		on := pods[node.Name]
		switch {
		case !run && len(on) > 0:
			s.NumberMisscheduled++
		case run:
			s.DesiredNumberScheduled++
		}
		if !run || len(on) == 0 {
			continue
		}
		s.CurrentNumberScheduled++
		pod := oldestFirst(on)[0]
		if readyCondition(pod) != nil {
			s.NumberReady++
			if r.available(pod) {
				s.NumberAvailable++
			}
		}
		if updated(r.ds, pod, r.hash) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s, nil
}

// counts are the fields that this controller writes.
func counts(s *appsv1.DaemonSetStatus) [7]int32 {
	return [7]int32{
		s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.NumberReady,
		s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberUnavailable,
	}
}

// writeStatus writes the status if it differs.
func (r *run) writeStatus(ctx context.Context, observed bool) error {
	s, err := r.newStatus(ctx, observed)
	if err != nil {
		return err
	}
	if counts(&s) != counts(&r.ds.Status) || r.ds.Status.ObservedGeneration < r.ds.Generation {
		if err := r.store(ctx, s, observed); err != nil {
			return fmt.Errorf("error storing status for daemon set %s: %w", r.key, err)
		}
	}
	if least := r.ds.Spec.MinReadySeconds; least > 0 && s.NumberReady != s.NumberAvailable {
		// Nothing else says when pods have been ready for long enough.
		r.AddAfter(r.key, time.Duration(least)*time.Second)
	}
	return nil
}

func (r *run) store(ctx context.Context, s appsv1.DaemonSetStatus, observed bool) error {
	sets := r.client.AppsV1().DaemonSets(r.ds.Namespace)
	next := r.ds.DeepCopy()
	for try := 0; ; try++ {
		collisions, seen := next.Status.CollisionCount, next.Status.ObservedGeneration
		next.Status = s
		next.Status.CollisionCount = collisions // not of this write
		if !observed {
			next.Status.ObservedGeneration = seen
		}
		made, err := sets.UpdateStatus(ctx, next, metav1.UpdateOptions{})
		if err == nil {
			r.written.set(r.key, made.UID, made.ResourceVersion)
			return nil
		}
		if try == statusRetries {
			return err
		}
		if next, err = sets.Get(ctx, r.ds.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if next.UID != r.ds.UID {
			return fmt.Errorf("original DaemonSet %s is gone: got uid %s, wanted %s", r.key, next.UID, r.ds.UID)
		}
	}
}
