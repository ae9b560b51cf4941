package deployment

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/plugins/controllers/ownership"
)

// recreate takes all old pods down, waits until the last is gone, and only
// then makes the new ones.
func (r *rollout) recreate(ctx context.Context) error {
	if err := r.find(ctx, false); err != nil {
		return err
	}
	if active := activeSets(r.old); len(active) > 0 {
		for _, rs := range active {
			if err := r.scaleTo(ctx, rs, 0, false); err != nil {
				return err
			}
		}
		return r.writeRolled(ctx)
	}
	running, err := r.oldPodsRun()
	if err != nil {
		return err
	}
	if running {
		return r.writeRolled(ctx)
	}
	if r.current == nil {
		if err := r.find(ctx, true); err != nil {
			return err
		}
	}
	if err := r.scaleTo(ctx, r.current, *r.dep.Spec.Replicas, false); err != nil {
		return err
	}
	if complete(r.dep, &r.dep.Status) {
		if err := r.prune(ctx); err != nil {
			return err
		}
	}
	return r.writeRolled(ctx)
}

// oldPodsRun says whether an old pod is not finished; one that is being
// deleted still runs.
func (r *rollout) oldPodsRun() (bool, error) {
	for _, rs := range r.old {
		if rs.Status.Replicas > 0 {
			return true, nil
		}
		pods, err := ownership.Children[*corev1.Pod](r.pods, rs.UID)
		if err != nil {
			return false, err
		}
		for _, p := range pods {
			if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
				return true, nil
			}
		}
	}
	return false, nil
}
