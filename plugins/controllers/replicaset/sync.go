package replicaset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
)

// sync brings one replica set nearer to its spec and writes its status.
func (r *replicator) sync(ctx context.Context, key string) error {
	rs, err := r.lookup(key)
	if err != nil {
		return err
	}
	if rs == nil { // RCC-12
		r.expect.forget(key)
		r.pace.forget(key)
		return nil
	}
	manage := r.expect.satisfied(key) // before the pods are read: RCC-13
	if left := r.pace.left(key, r.clock.Now()); left > 0 && !manage {
		return &queue.After{Delay: left, Reason: "the status was written just now"}
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		r.log.Error("selector is not valid", "key", key, "error", err)
		return nil
	}
	all, err := ownership.Children[*corev1.Pod](r.pods, rs.UID)
	if err != nil {
		return err
	}
	var live, terminating []*corev1.Pod
	for _, p := range all {
		switch {
		case active(p):
			live = append(live, p)
		case p.DeletionTimestamp != nil && !finished(p) && selector.Matches(labels.Set(p.Labels)):
			terminating = append(terminating, p)
		}
	}
	orphans, err := ownership.Orphans[*corev1.Pod](r.pods, rs.Namespace)
	if err != nil {
		return err
	}
	for _, p := range orphans {
		if active(p) && selector.Matches(labels.Set(p.Labels)) {
			live = append(live, p)
		}
	}
	pods, err := ownership.Claim(ctx, r.claimer(rs, selector), live, nil)
	if err != nil {
		return err
	}
	var manageErr error
	if manage && rs.DeletionTimestamp == nil { // RCC-15
		manageErr = r.manage(ctx, key, rs, pods)
	}
	now := r.clock.Now()
	if left := r.pace.left(key, now); left > 0 && len(pods) == int(ptr.Deref(rs.Spec.Replicas, 1)) {
		return &queue.After{Delay: left, Reason: "the status was written just now"}
	}
	updated, err := r.writeStatus(ctx, rs, r.newStatus(rs, pods, len(terminating), manageErr, now))
	if err != nil {
		return err
	}
	if updated.ResourceVersion != rs.ResourceVersion {
		r.pace.wrote(key, len(all), now)
	}
	if manageErr != nil {
		return manageErr
	}
	if updated.Spec.MinReadySeconds > 0 && updated.Status.ReadyReplicas != updated.Status.AvailableReplicas {
		// The event of a pod's readiness may have been folded into an earlier
		// sync; nothing else would look again.
		r.AddAfter(key, nextLook(pods, updated.Spec.MinReadySeconds, now))
	}
	return nil
}

func nextLook(pods []*corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	next := time.Duration(minReadySeconds) * time.Second
	for _, p := range pods {
		if left, ready := untilAvailable(p, minReadySeconds, now); ready && left > 0 {
			next = min(next, left)
		}
	}
	return next
}

func (r *replicator) claimer(rs *appsv1.ReplicaSet, selector labels.Selector) *ownership.Claimer {
	return &ownership.Claimer{
		Owner: rs, Kind: r.gvk, Selector: selector,
		Fresh: func(ctx context.Context) (metav1.Object, error) { return r.get(ctx, rs.Namespace, rs.Name) },
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			_, err := r.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
}

// manage makes or deletes pods, at most burst of them (RCC-16 to RCC-20).
func (r *replicator) manage(ctx context.Context, key string, rs *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	diff := len(pods) - int(ptr.Deref(rs.Spec.Replicas, 1))
	switch {
	case diff < 0:
		want := min(-diff, burst) // ODD-32
		r.expect.expectCreations(key, want)
		made, err := slowStart(want, func() error { return r.createPod(ctx, rs) })
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// Every creation fails there, and the replica set goes too: what is
			// still expected holds it back until then.
			return nil
		}
		for range want - made {
			// These will never be seen (ODD-15).
			r.expect.created(key)
		}
		return err
	case diff > 0:
		doomed := toDelete(pods, r.related(rs), min(diff, burst), r.clock.Now())
		keys := make([]string, len(doomed))
		for i, p := range doomed {
			keys[i] = podKey(p)
		}
		r.expect.expectDeletions(key, keys)
		return r.deletePods(ctx, key, rs, doomed)
	}
	return nil
}

// slowStart calls fn n times in batches of 1, 2, 4, ... calls at once, and
// stops after a batch in which one failed. It returns how many succeeded.
func slowStart(n int, fn func() error) (int, error) {
	done := 0
	for size := min(n, 1); size > 0; size = min(2*size, n-done) {
		faults := make([]error, size)
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() { faults[i] = fn() })
		}
		wg.Wait()
		for _, err := range faults {
			if err == nil {
				done++
			}
		}
		for _, err := range faults {
			if err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (r *replicator) createPod(ctx context.Context, rs *appsv1.ReplicaSet) error {
	t := rs.Spec.Template.DeepCopy()
	if len(t.Labels) == 0 {
		return errors.New("unable to create pods, no labels")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: namePrefix(rs.Name), Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, r.gvk)},
		},
		Spec: t.Spec,
	}
	made, err := r.client.CoreV1().Pods(rs.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err // nobody needs to be told
	}
	if err != nil {
		r.Recorder.Eventf(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			// A quota, or a template that is refused: its author reads of it in
			// the event and the condition, and the operator need not.
			return queue.Quiet(err)
		}
		return err
	}
	r.Recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", made.Name)
	return nil
}

// namePrefix adds the dash only if the result is a name of pods.
func namePrefix(name string) string {
	if prefix := name + "-"; len(validation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return name
}

// deletePods deletes all at once; the first fault is returned.
func (r *replicator) deletePods(ctx context.Context, key string, rs *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	faults := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, p := range pods {
		wg.Go(func() {
			err := r.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
			if err == nil {
				r.Recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", p.Name)
				return
			}
			r.expect.deleted(key, podKey(p)) // the informer will not show it
			if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				r.Recorder.Eventf(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
				faults[i] = fmt.Errorf("unable to delete pods: %w", err)
			}
		})
	}
	wg.Wait()
	for _, err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}

// related returns the pods of all replica sets that have the same controller:
// while a deployment rolls, its old and new pods double up nodes together.
func (r *replicator) related(rs *appsv1.ReplicaSet) []*corev1.Pod {
	siblings := []*appsv1.ReplicaSet{rs}
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
		owned, err := ownership.Children[any](r.informer.GetIndexer(), ref.UID)
		if err == nil && len(owned) > 0 {
			siblings = siblings[:0]
			for _, obj := range owned {
				siblings = append(siblings, r.from(obj))
			}
		}
	}
	var pods []*corev1.Pod
	for _, s := range siblings {
		if s != nil {
			of, err := ownership.Children[*corev1.Pod](r.pods, s.UID)
			if err == nil {
				pods = append(pods, of...)
			}
		}
	}
	return pods
}
