package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
)

// orphan names what may have a tracking finalizer that no Job takes off: one
// pod, or if name is empty the pods of the Job and those without a controller
// that its selector matches.
type orphan struct {
	namespace, name string
	job             types.UID
	selector        string
}

func isTracked(p *corev1.Pod) bool {
	return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}

func equalLabels(a, b *corev1.Pod) bool { return maps.Equal(a.Labels, b.Labels) }

// orphaned enqueues a pod that has the finalizer.
func (c *jobController) orphaned(pod *corev1.Pod) {
	if isTracked(pod) {
		c.orphans.Add(orphan{namespace: pod.Namespace, name: pod.Name})
	}
}

// orphansOf enqueues the pods of a Job that ended or is gone.
func (c *jobController) orphansOf(job *batchv1.Job) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		c.log.Error("selector is not valid", "job", queue.Key(job), "error", err)
		return
	}
	c.orphans.Add(orphan{namespace: job.Namespace, job: job.UID, selector: selector.String()})
}

// wakeMatching wakes the Jobs that might adopt a pod without a controller.
func (c *jobController) wakeMatching(pod *corev1.Pod) {
	if len(pod.Labels) == 0 {
		return
	}
	for _, job := range c.jobsIn(pod.Namespace) {
		if finished(job) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			c.batched(job)
		}
	}
}

// syncOrphan takes the finalizer off the pods of the key that no Job counts.
func (c *jobController) syncOrphan(ctx context.Context, key orphan) error {
	if key.name != "" {
		obj, there, err := c.pods.GetByKey(key.namespace + "/" + key.name)
		if err != nil || !there {
			return err
		}
		if pod, ok := obj.(*corev1.Pod); ok {
			return c.freeOrphan(ctx, pod)
		}
		return nil
	}
	selector, err := labels.Parse(key.selector)
	if err != nil {
		return fmt.Errorf("selector %q: %w", key.selector, err)
	}
	pods, err := ownership.Children[*corev1.Pod](c.pods, key.job)
	if err != nil {
		return err
	}
	bare, err := ownership.Orphans[*corev1.Pod](c.pods, key.namespace)
	if err != nil {
		return err
	}
	for _, pod := range bare {
		if !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !isTracked(p) })
	faults := make([]error, len(pods))
	each(len(pods), func(i int) { faults[i] = c.freeOrphan(ctx, pods[i]) })
	return errors.Join(faults...)
}

// freeOrphan takes the finalizer off one pod, unless a Job that runs counts it.
func (c *jobController) freeOrphan(ctx context.Context, pod *corev1.Pod) error {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if ref.Kind != jobKind.Kind || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
			return nil
		}
		if job := c.owner(pod.Namespace, ref); job != nil && (managedElsewhere(job) != "" || !finished(job)) {
			return nil
		}
	}
	if err := c.freePod(ctx, "", pod); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %s/%s: take the tracking finalizer off: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (c *jobController) jobsIn(namespace string) []*batchv1.Job {
	objs, err := c.jobs.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	jobs := make([]*batchv1.Job, 0, len(objs))
	for _, obj := range objs {
		if job, ok := obj.(*batchv1.Job); ok {
			jobs = append(jobs, job)
		}
	}
	return jobs
}
