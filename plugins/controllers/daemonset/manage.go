package daemonset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// burst is the most pods that one step makes, and the most that it deletes.
const burst = 250

// work is what is to be done: nodes that need a pod, and pods that go.
type work struct {
	create []string
	remove []*corev1.Pod
}

// manage sees to it that the nodes have the pods that they should.
func (r *run) manage(ctx context.Context) error {
	pods, err := r.podsByNode(ctx, false)
	if err != nil {
		return err
	}
	var w work
	there := map[string]bool{}
	for _, node := range r.nodes {
		there[node.Name] = true
		r.manageNode(node, pods[node.Name], &w)
	}
	for node, list := range pods {
		for _, p := range list {
			// No scheduler binds it, so that no one else deletes it.
			if !there[node] && p.Spec.NodeName == "" {
				w.remove = append(w.remove, p)
			}
		}
	}
	return r.do(ctx, w)
}

// manageNode adds what one node needs.
func (r *run) manageNode(node *corev1.Node, pods []*corev1.Pod, w *work) {
	shouldRun, mayStay := r.placement.on(node)
	switch {
	case shouldRun && len(pods) == 0:
		w.create = append(w.create, node.Name)
	case !mayStay:
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				w.remove = append(w.remove, p)
			}
		}
	default:
		live := r.removeEnded(node, pods, w)
		switch {
		case !r.surges():
			if len(live) > 1 {
				w.remove = append(w.remove, oldestFirst(live)[1:]...)
			}
		case len(live) == 0 && shouldRun:
			w.create = append(w.create, node.Name)
		case len(live) > 1:
			r.removeSurplus(live, w)
		}
	}
}

// removeEnded adds the pods that ended, and returns those that run or will.
func (r *run) removeEnded(node *corev1.Node, pods []*corev1.Pod, w *work) (live []*corev1.Pod) {
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
		case p.Status.Phase == corev1.PodFailed:
			// A node may refuse pods: without a back-off they would be made and
			// refused without end.
			key := fmt.Sprintf("%s/%d/%s", r.ds.UID, r.ds.Status.ObservedGeneration, node.Name)
			if r.backoff.IsInBackOffSinceUpdate(key, r.now) {
				r.AddAfter(r.key, r.backoff.Get(key))
				continue
			}
			r.backoff.Next(key, r.now)
			r.Recorder.Eventf(r.ds, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", p.Namespace, p.Name, node.Name)
			w.remove = append(w.remove, p)
		case p.Status.Phase == corev1.PodSucceeded:
			r.Recorder.Eventf(r.ds, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", p.Namespace, p.Name, node.Name)
			w.remove = append(w.remove, p)
		default:
			live = append(live, p)
		}
	}
	return live
}

// removeSurplus lets the oldest pod of the template and the oldest of another stay
// together for as long as the older one is ready and the newer not yet available.
func (r *run) removeSurplus(live []*corev1.Pod, w *work) {
	var current, other *corev1.Pod
	for _, p := range oldestFirst(live) {
		switch isCurrent := p.Labels[hashLabel] == r.hash; {
		case isCurrent && current == nil:
			current = p
		case !isCurrent && other == nil:
			other = p
		default:
			w.remove = append(w.remove, p)
		}
	}
	if current != nil && other != nil && (readyCondition(other) == nil || r.available(current)) {
		w.remove = append(w.remove, other)
	}
}

// do makes and deletes pods, at most burst of each. Creations start with one and
// double, and end with the first batch in which one fails.
func (r *run) do(ctx context.Context, w work) error {
	w.create, w.remove = w.create[:min(len(w.create), burst)], w.remove[:min(len(w.remove), burst)]
	doomed := make([]string, len(w.remove))
	for i, p := range w.remove {
		doomed[i] = podKey(p)
	}
	r.expect.expect(r.key, len(w.create), doomed) // before anything can be seen
	faults := make([]error, len(w.create)+len(w.remove))
	done := 0
	for size := min(len(w.create), 1); size > 0; size = min(2*size, len(w.create)-done) {
		r.each(size, func(i int) { faults[done+i] = r.createPod(ctx, w.create[done+i]) })
		failed := errors.Join(faults[done:done+size]...) != nil
		done += size
		if failed {
			r.expect.created(r.key, len(w.create)-done)
			break
		}
	}
	r.each(len(w.remove), func(i int) { faults[len(w.create)+i] = r.deletePod(ctx, w.remove[i]) })
	return errors.Join(faults...)
}

// each calls fn for 0 to n-1 at once, and waits.
func (r *run) each(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

func (r *run) createPod(ctx context.Context, node string) error {
	made, err := r.client.CoreV1().Pods(r.ds.Namespace).Create(ctx, newPod(r.ds, r.hash, node), metav1.CreateOptions{})
	switch {
	case err == nil:
		r.written.pod(r.key, r.ds.UID, made.ResourceVersion)
		r.Recorder.Eventf(r.ds, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", made.Name)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// All creations fail there, and the set goes too: what is expected holds it
		// back until then.
		return nil
	}
	r.expect.created(r.key, 1)
	r.Recorder.Eventf(r.ds, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return queue.Quiet(err) // the event says it to the author
	}
	return err
}

func (r *run) deletePod(ctx context.Context, p *corev1.Pod) error {
	err := r.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if err == nil {
		r.Recorder.Eventf(r.ds, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", p.Name)
		return nil
	}
	r.expect.deleted(r.key, podKey(p)) // the informer will not show it
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	r.Recorder.Eventf(r.ds, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
	return fmt.Errorf("unable to delete pods: %w", err)
}

// surges says whether a node may have two pods while the set is updated.
func (r *run) surges() bool {
	n, err := surge(r.ds, 1)
	return err == nil && n > 0
}

func rolls(ds *appsv1.DaemonSet) *appsv1.RollingUpdateDaemonSet {
	if ds.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return nil
	}
	return ds.Spec.UpdateStrategy.RollingUpdate
}
