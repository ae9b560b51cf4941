package deployment

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// roll makes one step of a rolling update: the new replica set up as far as
// the surge allows, else the old ones down as far as availability allows.
func (r *rollout) roll(ctx context.Context) error {
	if err := r.find(ctx, true); err != nil {
		return err
	}
	before := specReplicas(r.all())
	if err := r.scaleUpNew(ctx); err != nil {
		return err
	}
	if specReplicas(r.all()) == before {
		if err := r.scaleDownOld(ctx); err != nil {
			return err
		}
	}
	if specReplicas(r.all()) == before && complete(r.dep, &r.dep.Status) {
		if err := r.prune(ctx); err != nil {
			return err
		}
	}
	return r.writeRolled(ctx)
}

func (r *rollout) scaleUpNew(ctx context.Context) error {
	want, has := *r.dep.Spec.Replicas, *r.current.Spec.Replicas
	if has > want {
		return r.scaleTo(ctx, r.current, want, false)
	}
	if has == want {
		return nil
	}
	replicas, err := newReplicas(r.dep, r.all(), r.current)
	if err != nil {
		return err
	}
	return r.scaleTo(ctx, r.current, replicas, false)
}

// scaleDownOld takes unhealthy old replicas first, which cost no
// availability, then healthy ones down to the minimum that must be available.
// Unavailable new replicas count as if they would never be.
func (r *rollout) scaleDownOld(ctx context.Context) error {
	old := activeSets(r.old)
	if len(old) == 0 {
		return nil
	}
	slices.SortFunc(old, byCreation)
	least := *r.dep.Spec.Replicas - maxUnavailable(r.dep)
	room := specReplicas(r.all()) - least - (*r.current.Spec.Replicas - r.current.Status.AvailableReplicas)
	if room <= 0 {
		return nil
	}
	for i, rs := range old {
		take := min(room, *rs.Spec.Replicas-rs.Status.AvailableReplicas)
		if take <= 0 {
			continue
		}
		scaled, err := r.take(ctx, rs, take)
		if err != nil {
			return err
		}
		old[i] = scaled
		room -= take
	}
	spare := availableReplicas(append(slices.Clone(old), r.current)) - least
	for _, rs := range old {
		take := min(spare, *rs.Spec.Replicas)
		if take <= 0 {
			continue
		}
		if _, err := r.take(ctx, rs, take); err != nil {
			return err
		}
		spare -= take
	}
	return nil
}

// take scales an old replica set down by n and returns it as it is then.
func (r *rollout) take(ctx context.Context, rs *appsv1.ReplicaSet, n int32) (*appsv1.ReplicaSet, error) {
	i := slices.Index(r.old, rs)
	if err := r.scaleTo(ctx, rs, *rs.Spec.Replicas-n, false); err != nil {
		return nil, err
	}
	return r.old[i], nil
}
