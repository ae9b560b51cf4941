package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// rollout is one sync of a deployment. dep and the sets are copies.
type rollout struct {
	*deployer
	dep  *appsv1.Deployment
	sets []*appsv1.ReplicaSet // as claimed

	current *appsv1.ReplicaSet   // of the current template, may be nil
	old     []*appsv1.ReplicaSet // the others
}

// all returns the replica sets there are.
func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.current == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.current)
}

// find sorts the replica sets into current and old, makes the current one if
// it is missing and create is set, and keeps its revision the newest.
func (r *rollout) find(ctx context.Context, create bool) error {
	r.current, r.old = split(r.dep, r.sets)
	newest := maxRevision(r.old) + 1
	if r.current == nil {
		if !create {
			return nil
		}
		return r.create(ctx, newest)
	}
	if annotate(r.current, r.dep, newest) || r.current.Spec.MinReadySeconds != r.dep.Spec.MinReadySeconds {
		r.current.Spec.MinReadySeconds = r.dep.Spec.MinReadySeconds
		updated, err := r.client.AppsV1().ReplicaSets(r.dep.Namespace).Update(ctx, r.current, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		r.replace(r.current, updated)
		// Its event brings the deployment here again.
		return nil
	}
	changed := r.setRevision(r.current.Annotations[revisionAnnotation])
	if hasDeadline(r.dep) && condition(&r.dep.Status, appsv1.DeploymentProgressing) == nil {
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonFoundSet, fmt.Sprintf("Found new replica set %q", r.current.Name))
		changed = true
	}
	if changed {
		return r.writeStatus(ctx, r.dep)
	}
	return nil
}

// replace puts an updated replica set in the place of the one before.
func (r *rollout) replace(before, after *appsv1.ReplicaSet) {
	for _, list := range [][]*appsv1.ReplicaSet{r.sets, r.old} {
		if i := slices.Index(list, before); i >= 0 {
			list[i] = after
		}
	}
	if r.current == before {
		r.current = after
	}
}

func (r *rollout) setRevision(number string) bool {
	if r.dep.Annotations[revisionAnnotation] == number {
		return false
	}
	if r.dep.Annotations == nil {
		r.dep.Annotations = map[string]string{}
	}
	r.dep.Annotations[revisionAnnotation] = number
	return true
}

// create makes the replica set of the current template.
func (r *rollout) create(ctx context.Context, newest int64) error {
	dep, rs := r.dep, newSet(r.dep)
	replicas, err := newReplicas(dep, append(slices.Clone(r.old), rs), rs)
	if err != nil {
		return err
	}
	*rs.Spec.Replicas = replicas
	annotate(rs, dep, newest)
	annotateSize(rs, *dep.Spec.Replicas, *dep.Spec.Replicas+maxSurge(dep))
	created, err := r.client.AppsV1().ReplicaSets(dep.Namespace).Create(ctx, rs, metav1.CreateOptions{})
	fresh := true
	switch {
	case apierrors.IsAlreadyExists(err):
		there, getErr := r.client.AppsV1().ReplicaSets(dep.Namespace).Get(ctx, rs.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if !metav1.IsControlledBy(there, dep) || !sameTemplate(&there.Spec.Template, &dep.Spec.Template) {
			// Two templates of one hash: count on, the next sync has another.
			if dep.Status.CollisionCount == nil {
				dep.Status.CollisionCount = new(int32)
			}
			*dep.Status.CollisionCount++
			if statusErr := r.writeStatus(ctx, dep); statusErr != nil {
				return statusErr
			}
			return err
		}
		created, fresh = there, false // the cache did not have it yet
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		message := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err)
		if hasDeadline(dep) {
			r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonSetFailed, message)
			if statusErr := r.writeStatus(ctx, dep); statusErr != nil {
				r.log.Warn("status of deployment", "deployment", dep.Namespace+"/"+dep.Name, "error", statusErr)
			}
		}
		r.Recorder.Event(dep, corev1.EventTypeWarning, reasonSetFailed, message)
		return err
	}
	if fresh && replicas > 0 {
		r.Recorder.Eventf(dep, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", created.Name, replicas)
	}
	r.sets, r.current = append(r.sets, created), created
	changed := r.setRevision(strconv.FormatInt(newest, 10))
	if fresh && hasDeadline(dep) {
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonNewSet, fmt.Sprintf("Created new replica set %q", created.Name))
		changed = true
	}
	if changed {
		return r.writeMade(ctx)
	}
	return nil
}

// writeMade writes that a replica set was made. A deployment that is newer than the
// cache gets the condition too, since no later sync would say it. The conflict stays:
// the rest waits for the cache.
func (r *rollout) writeMade(ctx context.Context) error {
	conflict := r.writeStatus(ctx, r.dep)
	said := condition(&r.dep.Status, appsv1.DeploymentProgressing)
	if !apierrors.IsConflict(conflict) || said == nil {
		return conflict
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := r.client.AppsV1().Deployments(r.dep.Namespace).Get(ctx, r.dep.Name, metav1.GetOptions{})
		if err != nil || live.UID != r.dep.UID || !equality.Semantic.DeepEqual(live.Spec.Template, r.dep.Spec.Template) {
			return err // what was made is not what is wanted by now
		}
		putCondition(&live.Status, *said)
		_, err = r.client.AppsV1().Deployments(live.Namespace).UpdateStatus(ctx, live, metav1.UpdateOptions{})
		return err
	})
	return errors.Join(conflict, err)
}

// prune deletes the old replica sets beyond the history limit, the lowest
// revisions first, those that have pods excepted.
func (r *rollout) prune(ctx context.Context) error {
	limit := r.dep.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	old := slices.DeleteFunc(slices.Clone(r.old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	slices.SortStableFunc(old, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revision(a), revision(b)), byCreation(a, b))
	})
	for i := 0; i < len(old)-int(*limit); i++ {
		rs := old[i]
		if rs.Status.Replicas != 0 || *rs.Spec.Replicas != 0 || rs.Generation > rs.Status.ObservedGeneration {
			continue
		}
		err := r.client.AppsV1().ReplicaSets(rs.Namespace).Delete(ctx, rs.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
