package cronjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
)

const workers = 5

var gvk = batchv1.SchemeGroupVersion.WithKind("CronJob")

// New builds the controller of CronJobs.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentCronJobSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("cronjob: %w", err)
	}
	built, err := build(c.Client, c.Informers, c.Logger)
	if err != nil {
		return nil, err
	}
	built.SetWorkers(workers)
	return built, nil
}

type scheduler struct {
	*queue.Frame[string]
	client   kubernetes.Interface
	cronJobs cache.Indexer
	jobs     cache.Indexer
	wall     func() time.Time
	log      *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, log *slog.Logger) (*scheduler, error) {
	cronJobs := shared.Batch().V1().CronJobs().Informer()
	jobs := shared.Batch().V1().Jobs().Informer()
	if err := ownership.Index(jobs); err != nil {
		return nil, err
	}
	s := &scheduler{client: client, cronJobs: cronJobs.GetIndexer(), jobs: jobs.GetIndexer(), wall: time.Now, log: log}
	s.Frame = queue.NewFrame(client, log, "cronjob-controller", s.sync, queue.Options[string]{Name: "cronjob", Workers: workers})
	s.Watch(cronJobs, queue.On(s.changed))
	s.Watch(jobs, queue.On(s.jobChanged))
	s.Beside(queue.Func(func(ctx context.Context) { watchClock(ctx, s.wall, s.all) }))
	return s, nil
}

// all looks at all CronJobs.
func (s *scheduler) all() {
	for _, key := range s.cronJobs.ListKeys() {
		s.Add(key)
	}
}

// changed looks at a CronJob. One with a new schedule is looked at when that
// says so: a start of the new schedule that lies behind is none.
func (s *scheduler) changed(old, cj *batchv1.CronJob) {
	if cj == nil {
		cj = old
	}
	if old == nil || old.Spec.Schedule == cj.Spec.Schedule && ptr.Equal(old.Spec.TimeZone, cj.Spec.TimeZone) {
		s.Add(queue.Key(cj))
		return
	}
	schedule, err := parse(&cj.Spec)
	if err != nil {
		s.Recorder.Eventf(cj, corev1.EventTypeWarning, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", cj.Spec.Schedule)
		return
	}
	s.AddAfter(queue.Key(cj), untilNext(cj, s.wall(), schedule))
}

// owner returns the key of the CronJob that controls a Job.
func (s *scheduler) owner(job *batchv1.Job) (string, bool) {
	if job == nil {
		return "", false
	}
	ref := metav1.GetControllerOfNoCopy(job)
	if ref == nil || ref.Kind != gvk.Kind {
		return "", false
	}
	key := job.Namespace + "/" + ref.Name
	cj := s.lookup(key)
	return key, cj != nil && cj.UID == ref.UID
}

func (s *scheduler) jobChanged(old, job *batchv1.Job) {
	if old != nil && job != nil && old.ResourceVersion == job.ResourceVersion {
		return
	}
	for _, j := range []*batchv1.Job{old, job} {
		if key, ours := s.owner(j); ours {
			s.Add(key)
		}
	}
}

func (s *scheduler) lookup(key string) *batchv1.CronJob {
	return ownership.Cached[*batchv1.CronJob](s.cronJobs, key)
}

// run is one sync of a CronJob, which is a copy.
type run struct {
	*scheduler
	cj      *batchv1.CronJob
	jobs    []*batchv1.Job // of the cache, that it controls
	now     time.Time
	changed bool // the status is to be written
}

// sync works on one CronJob.
func (s *scheduler) sync(ctx context.Context, key string) error {
	cached := s.lookup(key)
	if cached == nil {
		return nil
	}
	jobs, err := ownership.Children[*batchv1.Job](s.jobs, cached.UID)
	if err != nil {
		return err
	}
	r := &run{scheduler: s, cj: cached.DeepCopy(), jobs: jobs, now: s.wall()}
	next, fault := r.work(ctx)
	if r.changed {
		if _, err := s.client.BatchV1().CronJobs(r.cj.Namespace).UpdateStatus(ctx, r.cj, metav1.UpdateOptions{}); err != nil {
			return errors.Join(fault, fmt.Errorf("status of cron job %s: %w", key, err))
		}
	}
	if fault == nil && next != nil {
		return &queue.After{Delay: *next, Reason: "the next start"}
	}
	return fault
}

// work does all but writing the status.
func (r *run) work(ctx context.Context) (next *time.Duration, err error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	r.prune(ctx)
	if err := r.observe(ctx); err != nil {
		return nil, err
	}
	if r.cj.DeletionTimestamp != nil {
		return nil, nil
	}
	return r.start(ctx)
}
