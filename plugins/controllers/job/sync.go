package job

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
)

// behindWait is when a sync looks again that found a cache behind its writes.
const behindWait = 50 * time.Millisecond

// What a sync did, as its metrics name it.
const (
	actionReconciling = "reconciling"
	actionTracking    = "tracking"
	actionCreated     = "pods_created"
	actionDeleted     = "pods_deleted"
)

// pass is one sync of a Job: what it read, and what follows from that.
type pass struct {
	key         string
	job         *batchv1.Job // a copy; the status to be written grows in it
	pods        []*corev1.Pod
	active      []*corev1.Pod
	terminating int32
	ready       int32

	removing  sets.Set[types.UID] // pods whose finalizer is off, though the cache shows it
	uncounted struct{ succeeded, failed sets.Set[types.UID] }
	succeeded int32 // pods, or indexes of an Indexed Job, counted or not
	failed    int32 // pods, counted or not
	failures  failures

	// Of Indexed Jobs.
	indexed       bool
	completions   int
	doneBefore    indexes // in the status
	done          indexes
	failedIndexes indexes // of those with a limit for each index
	// awaiting holds for an index the failed pod that keeps its finalizer until
	// its replacement, which inherits the count of failures, is made.
	awaiting map[int]*corev1.Pod

	// finish is the condition by which the Job ends, nil if it goes on.
	finish *batchv1.JobCondition
}

// sync brings one Job nearer to its end and writes its status.
func (c *jobController) sync(ctx context.Context, key string) error {
	job, err := c.lookup(key)
	if err != nil || job == nil {
		return err
	}
	uid := job.UID
	if resource, behind := c.versions.behind(uid); behind {
		staleSkips.WithLabelValues(resource.Group, resource.Resource).Inc()
		return &queue.After{Delay: behindWait, Reason: "the cache of " + resource.String() + " is behind what was written"}
	}
	// Only now does the cache have what this controller wrote.
	job, err = c.lookup(key)
	if err != nil || job == nil {
		return err
	}
	if job.UID != uid {
		c.Add(key)
		return nil
	}
	if managedElsewhere(job) != "" {
		return nil
	}
	if finished(job) {
		c.forget(uid)
		return nil
	}
	if _, ended := c.ended.Load(uid); ended {
		return nil
	}
	job = job.DeepCopy()
	mode := completionMode(job)
	if mode != batchv1.NonIndexedCompletion && mode != batchv1.IndexedCompletion {
		c.Recorder.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return nil
	}
	began := c.clock.Now()
	action, err := c.reconcile(ctx, key, job)
	result := "success"
	if err != nil {
		result = "error"
	}
	syncSeconds.WithLabelValues(string(mode), result, action).Observe(c.clock.Since(began).Seconds())
	syncsTotal.WithLabelValues(string(mode), result, action).Inc()
	if now, _ := c.lookup(key); now == nil || now.UID != uid {
		c.forget(uid) // it went while it was worked on
	}
	return err
}

func completionMode(job *batchv1.Job) batchv1.CompletionMode {
	return ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion)
}

// reconcile is a sync of a Job that is this controller's and goes on.
func (c *jobController) reconcile(ctx context.Context, key string, job *batchv1.Job) (action string, err error) {
	// Before the pods are read, so that none that comes later meets what is
	// expected of those that were read.
	satisfied := c.expect.satisfied(job.UID)
	p, err := c.look(ctx, key, job)
	if err != nil {
		return actionReconciling, err
	}
	if job.Status.StartTime == nil && !isSuspended(job) {
		job.Status.StartTime = ptr.To(metav1.NewTime(c.clock.Now()))
	}
	c.judge(p)
	action = actionReconciling
	active := int32(len(p.active))
	changed := false
	var manageErr error
	switch {
	case p.finish != nil:
		var gone int32
		gone, manageErr = c.stop(ctx, p)
		if gone != active || !satisfied {
			// Pods may be left, or come to light, that are to be counted first.
			p.finish = nil
		}
		active -= gone
	case satisfied && job.DeletionTimestamp == nil:
		active, action, manageErr = c.manage(ctx, p)
		if !c.complete(p, active) {
			changed = c.suspension(job)
		}
	default:
		c.complete(p, active)
	}
	s := &job.Status
	changed = changed || active != s.Active || !ptr.Equal(&p.ready, s.Ready) || !ptr.Equal(&p.terminating, s.Terminating)
	s.Active, s.Ready, s.Terminating = active, ptr.To(p.ready), ptr.To(p.terminating)
	if err := c.settle(ctx, p, changed); err != nil {
		return action, fmt.Errorf("tracking status: %w", err)
	}
	return action, manageErr
}

// complete sets p.finish if the Job has all its completions.
func (c *jobController) complete(p *pass, active int32) bool {
	if !p.completed(active) {
		return false
	}
	p.finish = condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods", c.clock.Now())
	return true
}

// look reads the pods of the Job, adopts and releases some, and counts.
func (c *jobController) look(ctx context.Context, key string, job *batchv1.Job) (*pass, error) {
	if job.Status.UncountedTerminatedPods == nil {
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	p := &pass{key: key, job: job, indexed: completionMode(job) == batchv1.IndexedCompletion, completions: int(ptr.Deref(job.Spec.Completions, 0))}
	var err error
	if p.pods, err = c.podsOf(ctx, job); err != nil {
		return nil, err
	}
	for _, pod := range p.pods {
		switch {
		case isActive(pod):
			p.active = append(p.active, pod)
			if readyCondition(pod) != nil {
				p.ready++
			}
		case isTerminating(pod):
			p.terminating++
		}
	}
	p.removing = c.expect.removals(job.UID)
	p.uncounted.succeeded = sets.New(job.Status.UncountedTerminatedPods.Succeeded...)
	p.uncounted.failed = sets.New(job.Status.UncountedTerminatedPods.Failed...)
	succeeded := p.fresh(p.uncounted.succeeded, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	lost := p.fresh(p.uncounted.failed, func(pod *corev1.Pod) bool { return failed(job, pod) })
	p.succeeded = job.Status.Succeeded + int32(len(succeeded)+p.uncounted.succeeded.Len())
	p.failed = job.Status.Failed + int32(p.uncounted.failed.Len())
	for _, pod := range lost {
		if rule(job.Spec.PodFailurePolicy, pod).counts {
			p.failed++
		}
	}
	p.failures = c.backoffs.next(job.UID, succeeded, lost, c.clock.Now())
	if p.indexed {
		p.lookAtIndexes()
	}
	return p, nil
}

// podsOf returns the pods that the Job controls after adoptions and releases.
// Those that it adopted have the finalizer, though the cache lacks it.
func (c *jobController) podsOf(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("couldn't convert Job selector: %w", err)
	}
	pods, err := ownership.Children[*corev1.Pod](c.pods, job.UID)
	if err != nil {
		return nil, err
	}
	bare, err := ownership.Orphans[*corev1.Pod](c.pods, job.Namespace)
	if err != nil {
		return nil, err
	}
	claimer := &ownership.Claimer{
		Owner: job, Kind: jobKind, Selector: selector, Finalizers: []string{batchv1.JobTrackingFinalizer},
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			return c.patchPod(ctx, job.UID, namespace, name, patch)
		},
	}
	pods, err = ownership.Claim(ctx, claimer, append(pods, bare...), nil)
	if err != nil {
		return nil, err
	}
	for i, pod := range pods {
		if !metav1.IsControlledBy(pod, job) && !isTracked(pod) {
			pod = pod.DeepCopy()
			pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
			pods[i] = pod
		}
	}
	return pods, nil
}

// tracks says that the pod is not counted yet, as far as finalizers say.
func (p *pass) tracks(pod *corev1.Pod) bool {
	return isTracked(pod) && !p.removing.Has(pod.UID)
}

// fresh returns the pods of a kind that the status does not know yet. Those of
// an Indexed Job without a valid index do not count.
func (p *pass) fresh(known sets.Set[types.UID], is func(*corev1.Pod) bool) []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range p.pods {
		if p.tracks(pod) && !known.Has(pod.UID) && (!p.indexed || p.index(pod) != noIndex) && is(pod) {
			found = append(found, pod)
		}
	}
	return found
}
