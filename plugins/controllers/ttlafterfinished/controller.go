package ttlafterfinished

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/metrics"
)

// longestWait bounds how long a Job is not looked at: timers do not see that the
// machine's clock was set.
const longestWait = 10 * time.Minute

var (
	deletionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds",
		Help: "Time between the end of the TTL of a Job and its deletion.", Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	})
	registerMetrics sync.Once
)

// Config has the name and default of kube-controller-manager's configuration of
// this controller.
type Config struct {
	// ConcurrentTTLSyncs is how many Jobs are worked on at once; 1 to 1000,
	// default 5.
	ConcurrentTTLSyncs int `json:"concurrentTTLSyncs"`
}

func readConfig(data []byte) (Config, error) {
	n, err := settings.Workers(data, "concurrentTTLSyncs", 5)
	if err != nil {
		return Config{}, fmt.Errorf("ttlafterfinished: %w", err)
	}
	return Config{ConcurrentTTLSyncs: n}, nil
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	registerMetrics.Do(func() { metrics.Register(deletionSeconds) })
	return build(c.Client, c.Informers, config, clock.RealClock{}, c.Logger), nil
}

type cleaner struct {
	client   kubernetes.Interface
	informer cache.SharedIndexInformer
	loop     *queue.Loop[string]
	clock    clock.PassiveClock
	log      *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, config Config, clk clock.PassiveClock, log *slog.Logger) *cleaner {
	c := &cleaner{client: client, informer: shared.Batch().V1().Jobs().Informer(), clock: clk, log: log}
	c.loop = queue.New(log, c.sync, queue.Options[string]{Name: "ttl_jobs_to_delete", Workers: config.ConcurrentTTLSyncs})
	return c
}

// Run works until ctx ends.
func (c *cleaner) Run(ctx context.Context) error {
	return c.loop.Follow(ctx, queue.Watch{Informer: c.informer, Handler: queue.On(c.changed)})
}

func (c *cleaner) changed(_, job *batchv1.Job) {
	if job != nil && isDue(job) {
		c.loop.Add(queue.Key(job))
	}
}

// isDue says that the Job is to be deleted some time.
func isDue(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && job.Spec.TTLSecondsAfterFinished != nil && end(job) != nil
}

// end is the condition by which the Job ended, nil if it has not.
func end(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func (c *cleaner) sync(ctx context.Context, key string) error {
	obj, there, err := c.informer.GetIndexer().GetByKey(key)
	if err != nil || !there {
		return err
	}
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return nil
	}
	if _, over, err := c.expired(job); err != nil || !over {
		return err
	}
	fresh, err := c.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("job %s: read before its deletion: %w", key, err)
	}
	since, over, err := c.expired(fresh)
	if err != nil || !over {
		return err
	}
	err = c.client.BatchV1().Jobs(fresh.Namespace).Delete(ctx, fresh.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
		Preconditions:     &metav1.Preconditions{UID: &fresh.UID, ResourceVersion: &fresh.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("job %s: delete: %w", key, err)
	}
	deletionSeconds.Observe(c.clock.Since(since).Seconds())
	return nil
}

// expired says whether the Job's TTL is over, and since when. If it is not yet,
// the Job is looked at again.
func (c *cleaner) expired(job *batchv1.Job) (since time.Time, over bool, err error) {
	if !isDue(job) {
		return time.Time{}, false, nil
	}
	ended := end(job).LastTransitionTime.Time
	if ended.IsZero() {
		return time.Time{}, false, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
	}
	now := c.clock.Now()
	if ended.After(now) {
		c.log.Warn("the job ended in the future, its deletion waits until then: compare the clocks of the machines", "job", queue.Key(job), "ended", ended)
	}
	since = ended.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	if left := since.Sub(now); left > 0 {
		c.loop.AddAfter(queue.Key(job), min(left, longestWait))
		return since, false, nil
	}
	return since, true, nil
}
