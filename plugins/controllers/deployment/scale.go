package deployment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// isScaling says that the deployment's replicas changed since its replica
// sets were sized.
func (r *rollout) isScaling(ctx context.Context) (bool, error) {
	if err := r.find(ctx, false); err != nil {
		return false, err
	}
	for _, rs := range activeSets(r.all()) {
		if desired, ok := size(rs, desiredAnnotation); ok && desired != *r.dep.Spec.Replicas {
			return true, nil
		}
	}
	return false, nil
}

// resize scales without rolling on; it is all that a paused deployment does.
func (r *rollout) resize(ctx context.Context) error {
	if err := r.find(ctx, false); err != nil {
		return err
	}
	if err := r.scale(ctx); err != nil {
		return err
	}
	if r.dep.Spec.Paused {
		if err := r.prune(ctx); err != nil {
			return err
		}
	}
	return r.writeScaled(ctx)
}

// scale brings the replica sets to the deployment's size: the one that runs,
// or in the middle of a rollout all in proportion, so that an early failure
// of the new template does not take the whole.
func (r *rollout) scale(ctx context.Context) error {
	want := *r.dep.Spec.Replicas
	if rs := r.activeOrLatest(); rs != nil {
		return r.scaleTo(ctx, rs, want, false)
	}
	if saturated(r.dep, r.current) {
		for _, rs := range activeSets(r.old) {
			if err := r.scaleTo(ctx, rs, 0, false); err != nil {
				return err
			}
		}
		return nil
	}
	if !isRolling(r.dep) {
		return nil
	}
	sets := activeSets(r.all())
	allowed := int32(0)
	if want > 0 {
		allowed = want + maxSurge(r.dep)
	}
	add := allowed - specReplicas(sets)
	// The largest takes what rounding leaves; of equals the newest grows
	// first and the oldest shrinks first.
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		age := byCreation(b, a)
		if add < 0 {
			age = byCreation(a, b)
		}
		return cmp.Or(cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas), age)
	})
	sizes, added := make([]int32, len(sets)), int32(0)
	for i, rs := range sets {
		share := proportion(r.dep, rs, add, added)
		sizes[i] = *rs.Spec.Replicas + share
		added += share
	}
	for i, rs := range sets {
		if i == 0 {
			sizes[0] = max(0, sizes[0]+add-added)
		}
		if err := r.scaleTo(ctx, rs, sizes[i], true); err != nil {
			return err
		}
	}
	return nil
}

// activeOrLatest is the only replica set with replicas, or the newest if none
// has any; nil if several have.
func (r *rollout) activeOrLatest() *appsv1.ReplicaSet {
	switch active := activeSets(r.all()); {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case r.current != nil:
		return r.current
	case len(r.old) > 0:
		return slices.MaxFunc(r.old, byCreation)
	}
	return nil
}

// scaleTo sets a replica set's replicas; always also renews its notes of the
// deployment's size when the replicas stay.
func (r *rollout) scaleTo(ctx context.Context, rs *appsv1.ReplicaSet, want int32, always bool) error {
	had := *rs.Spec.Replicas
	if had == want && !always {
		return nil
	}
	next := rs.DeepCopy()
	*next.Spec.Replicas = want
	noted := annotateSize(next, *r.dep.Spec.Replicas, *r.dep.Spec.Replicas+maxSurge(r.dep))
	if had == want && !noted {
		return nil
	}
	updated, err := r.client.AppsV1().ReplicaSets(next.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.replace(rs, updated)
	if had != want {
		way := "up"
		if want < had {
			way = "down"
		}
		r.Recorder.Eventf(r.dep, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", way, rs.Name, had, want)
	}
	return nil
}

// proportion is the replica set's share of the replicas to add (or to take,
// if negative) when added of them are given out.
func proportion(dep *appsv1.Deployment, rs *appsv1.ReplicaSet, add, added int32) int32 {
	if *rs.Spec.Replicas == 0 || add == 0 || add == added {
		return 0
	}
	share, left := fraction(dep, rs), add-added
	if add > 0 {
		return min(share, left)
	}
	return max(share, left)
}

func fraction(dep *appsv1.Deployment, rs *appsv1.ReplicaSet) int32 {
	has := *rs.Spec.Replicas
	if *dep.Spec.Replicas == 0 {
		return -has
	}
	before, ok := size(rs, maxAnnotation)
	if !ok || before == 0 {
		before = dep.Status.Replicas
		if before == 0 {
			return 0
		}
	}
	most := *dep.Spec.Replicas + maxSurge(dep)
	return int32(math.Round(float64(has)*float64(most)/float64(before))) - has
}

// saturated says that the current replica set has and runs all the replicas.
func saturated(dep *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	if rs == nil {
		return false
	}
	want := *dep.Spec.Replicas
	desired, ok := size(rs, desiredAnnotation)
	return ok && *rs.Spec.Replicas == want && desired == want && rs.Status.AvailableReplicas == want
}

// newReplicas is how many replicas the current replica set may have.
func newReplicas(dep *appsv1.Deployment, all []*appsv1.ReplicaSet, current *appsv1.ReplicaSet) (int32, error) {
	want, has := *dep.Spec.Replicas, *current.Spec.Replicas
	switch dep.Spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		return want, nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		room := want + maxSurge(dep) - specReplicas(all)
		if room <= 0 {
			return has, nil
		}
		return has + min(room, want-has), nil
	}
	return 0, fmt.Errorf("deployment type %v isn't supported", dep.Spec.Strategy.Type)
}

func isRolling(dep *appsv1.Deployment) bool {
	return dep.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// fenceposts resolves maxSurge, rounded up, and maxUnavailable, rounded down;
// if both come to 0 one pod may be unavailable, or nothing could move.
func fenceposts(dep *appsv1.Deployment) (surge, unavailable int32) {
	if !isRolling(dep) || dep.Spec.Strategy.RollingUpdate == nil {
		return 0, 0
	}
	zero, of := intstr.FromInt32(0), int(*dep.Spec.Replicas)
	s, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(dep.Spec.Strategy.RollingUpdate.MaxSurge, zero), of, true)
	if err != nil {
		return 0, 0
	}
	u, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(dep.Spec.Strategy.RollingUpdate.MaxUnavailable, zero), of, false)
	if err != nil {
		return 0, 0
	}
	if s == 0 && u == 0 {
		u = 1
	}
	return int32(s), int32(u)
}

func maxSurge(dep *appsv1.Deployment) int32 {
	surge, _ := fenceposts(dep)
	return surge
}

func maxUnavailable(dep *appsv1.Deployment) int32 {
	_, unavailable := fenceposts(dep)
	return min(unavailable, *dep.Spec.Replicas)
}

func activeSets(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var active []*appsv1.ReplicaSet
	for _, rs := range sets {
		if *rs.Spec.Replicas > 0 {
			active = append(active, rs)
		}
	}
	return active
}

func specReplicas(sets []*appsv1.ReplicaSet) (n int32) {
	for _, rs := range sets {
		n += *rs.Spec.Replicas
	}
	return n
}

func availableReplicas(sets []*appsv1.ReplicaSet) (n int32) {
	for _, rs := range sets {
		n += rs.Status.AvailableReplicas
	}
	return n
}
