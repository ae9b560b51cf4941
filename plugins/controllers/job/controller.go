package job

import (
	"log/slog"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	component = "job-controller" // as it signs events

	// burst is the most pods one sync makes, or deletes because there are too
	// many.
	burst = 500
	// maxUncounted is the most pods one sync counts, which keeps the status
	// below 20 KB.
	maxUncounted = 500

	// firstBackoff and lastBackoff bound the time until a failed sync is tried
	// again.
	firstBackoff = time.Second
	lastBackoff  = time.Minute

	// Events of pods wait a little, so that one sync looks at several: the more
	// pods run at once, the longer.
	shortestBatch = 20 * time.Millisecond
	longestBatch  = 500 * time.Millisecond

	// longestLook bounds how long a deadline is slept through: timers do not see
	// that the machine's clock was set.
	longestLook = 10 * time.Minute
)

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// New builds the controller of Jobs.
func New(c *controller.Context) (controller.Runner, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	register()
	return build(c.Client, c.Informers, config, clock.RealClock{}, c.Logger)
}

type jobController struct {
	*queue.Frame[string]
	client  kubernetes.Interface
	jobs    cache.Indexer
	pods    cache.Indexer
	orphans *queue.Loop[orphan]
	clock   clock.PassiveClock
	log     *slog.Logger

	expect   *expectations
	versions *versions
	backoffs *backoffs
	// ended are the UIDs of Jobs whose end is written and not yet in the cache.
	ended sync.Map
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, config Config, clk clock.PassiveClock, log *slog.Logger) (*jobController, error) {
	jobs, pods := shared.Batch().V1().Jobs().Informer(), shared.Core().V1().Pods().Informer()
	if err := ownership.Index(pods); err != nil {
		return nil, err
	}
	c := &jobController{
		client: client, jobs: jobs.GetIndexer(), pods: pods.GetIndexer(), clock: clk, log: log,
		expect: newExpectations(clk), backoffs: newBackoffs(),
		versions: newVersions(map[schema.GroupResource]func() string{
			jobsResource: jobs.GetIndexer().LastStoreSyncResourceVersion,
			podsResource: pods.GetIndexer().LastStoreSyncResourceVersion,
		}),
	}
	c.Frame = queue.NewFrame(client, log, component, c.sync, queue.Options[string]{
		Name: "job", Workers: config.ConcurrentJobSyncs,
		Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstBackoff, lastBackoff),
	})
	c.orphans = queue.New(log, c.syncOrphan, queue.Options[orphan]{
		Name: "job_orphan_pod", Workers: config.ConcurrentJobSyncs,
		Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[orphan](firstBackoff, lastBackoff),
	})
	c.Watch(jobs, queue.On(c.jobChanged))
	c.Watch(pods, queue.On(c.podChanged))
	c.Beside(c.orphans)
	return c, nil
}

// batched puts the Job on the queue after events of its pods.
func (c *jobController) batched(job *batchv1.Job) { c.delayed(job, 0) }

// delayed is batched for a time that is known.
func (c *jobController) delayed(job *batchv1.Job, delay time.Duration) {
	batch := time.Duration(ptr.Deref(job.Spec.Parallelism, 1)) * time.Millisecond
	c.AddAfter(queue.Key(job), max(delay, min(max(batch, shortestBatch), longestBatch)))
}

// lookup returns the cached Job of the key, nil if there is none.
func (c *jobController) lookup(key string) (*batchv1.Job, error) {
	obj, there, err := c.jobs.GetByKey(key)
	if err != nil || !there {
		return nil, err
	}
	job, _ := obj.(*batchv1.Job)
	return job, nil
}

// owner returns the cached Job that the reference names, nil if it names none.
func (c *jobController) owner(namespace string, ref *metav1.OwnerReference) *batchv1.Job {
	return ownership.Owner[*batchv1.Job](c.jobs, jobKind.Kind, namespace, ref)
}

// forget drops all that is known of a Job that ended or is gone.
func (c *jobController) forget(job types.UID) {
	c.expect.forget(job)
	c.versions.forget(job)
	c.backoffs.forget(job)
	c.ended.Delete(job)
}

func (c *jobController) jobChanged(old, job *batchv1.Job) {
	switch {
	case job == nil:
		c.jobGone(old)
	case old == nil:
		c.jobAdded(job)
	case old.UID != job.UID: // deleted and made again between two looks
		c.jobGone(old)
		c.jobAdded(job)
	default:
		c.jobUpdated(old, job)
	}
}

func (c *jobController) jobAdded(job *batchv1.Job) {
	c.Add(queue.Key(job))
	if by := managedElsewhere(job); by != "" {
		jobsElsewhere.WithLabelValues(elsewhere.name(by)).Inc()
	}
}

func (c *jobController) jobUpdated(old, job *batchv1.Job) {
	if finished(job) {
		// No finalizer should be left; this takes off one that is.
		c.forget(job.UID)
		c.orphansOf(job)
		return
	}
	if old.Generation == job.Generation {
		c.batched(job)
	} else {
		c.Add(queue.Key(job))
	}
}

func (c *jobController) jobGone(job *batchv1.Job) {
	c.Add(queue.Key(job))
	c.forget(job.UID)
	c.orphansOf(job)
}

func (c *jobController) podChanged(old, pod *corev1.Pod) {
	countTracked(old, pod)
	switch {
	case pod == nil:
		c.podGone(old, true)
	case old == nil:
		c.podAdded(pod)
	case old.ResourceVersion != pod.ResourceVersion:
		c.podUpdated(old, pod)
	}
}

func countTracked(old, pod *corev1.Pod) {
	tracked := func(p *corev1.Pod) bool { return p != nil && ended(p) && isTracked(p) }
	switch was, is := tracked(old), tracked(pod); {
	case is && !was:
		terminatedTracked.WithLabelValues("add").Inc()
	case was && !is:
		terminatedTracked.WithLabelValues("delete").Inc()
	}
}

func (c *jobController) podAdded(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		c.podGone(pod, false)
		return
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if job := c.owner(pod.Namespace, ref); job != nil {
			c.expect.created(job.UID, 1)
			c.batched(job)
		}
		return
	}
	c.orphaned(pod)
	c.wakeMatching(pod)
}

func (c *jobController) podUpdated(old, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		// The mark counts as the deletion: a replacement need not wait for the
		// end of the grace period.
		c.podGone(pod, false)
		return
	}
	oldRef, ref := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(pod)
	moved := (oldRef == nil) != (ref == nil) || oldRef != nil && oldRef.UID != ref.UID
	if moved {
		c.podSeen(c.owner(old.Namespace, oldRef), pod)
	}
	if ref != nil {
		c.podSeen(c.owner(pod.Namespace, ref), pod)
		return
	}
	c.orphaned(pod)
	if moved || !equalLabels(old, pod) {
		c.wakeMatching(pod)
	}
}

// podSeen wakes the Job, nil for none, that a pod has or had.
func (c *jobController) podSeen(job *batchv1.Job, pod *corev1.Pod) {
	if job == nil {
		return
	}
	if !isTracked(pod) {
		c.expect.removed(job.UID, pod.UID)
	}
	c.batched(job)
}

// podGone is for a pod that is marked for deletion, or is gone (final).
func (c *jobController) podGone(pod *corev1.Pod, final bool) {
	ref := metav1.GetControllerOfNoCopy(pod)
	job := c.owner(pod.Namespace, ref)
	if ref == nil || job == nil || finished(job) {
		// No sync of a Job takes this finalizer off.
		c.orphaned(pod)
		return
	}
	c.expect.deleted(job.UID, pod.UID)
	if final || !isTracked(pod) {
		c.expect.removed(job.UID, pod.UID)
	}
	c.batched(job)
}
