package cronjob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// start makes the Job of the latest start that is due. next is how long to wait
// for the start after it, nil if nothing is waited for.
func (r *run) start(ctx context.Context) (next *time.Duration, err error) {
	schedule := r.schedule()
	if schedule == nil {
		return nil, nil
	}
	wait := func() *time.Duration { return ptr.To(untilNext(r.cj, r.now, schedule)) }
	due, err := r.due(ctx, schedule)
	if err != nil {
		// It stays so until the spec is changed.
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", r.cj.Spec.Schedule, err)
		return nil, nil
	}
	if due.IsZero() || r.skipped(due) {
		return wait(), nil
	}
	if err := r.replace(ctx); err != nil {
		return nil, err
	}
	job, err := r.create(ctx, due)
	if err != nil {
		return nil, err
	}
	if job == nil { // the next start has a name of its own
		return wait(), nil
	}
	ref, err := reference.GetReference(scheme.Scheme, job)
	if err != nil {
		return nil, fmt.Errorf("unable to make object reference for job for %s/%s: %w", r.cj.Namespace, r.cj.Name, err)
	}
	r.cj.Status.Active = append(r.cj.Status.Active, *ref)
	r.cj.Status.LastScheduleTime = &metav1.Time{Time: due}
	r.changed = true
	return wait(), nil
}

// schedule returns the schedule, or nil where there is none to go by until the
// spec is changed.
func (r *run) schedule() cron.Schedule {
	spec := &r.cj.Spec
	if _, err := zone(r.cj); err != nil {
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *spec.TimeZone, err)
		return nil
	}
	if ptr.Deref(spec.Suspend, false) {
		return nil
	}
	if hasZone(spec.Schedule) {
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", spec.Schedule)
	}
	schedule, err := parse(spec)
	if err != nil {
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", spec.Schedule, err)
		return nil
	}
	return schedule
}

// due returns the latest start that no Job was made for, or the zero time.
func (r *run) due(ctx context.Context, schedule cron.Schedule) (time.Time, error) {
	m, err := lookBack(r.cj, r.now, schedule, true)
	if err != nil || m.last.IsZero() {
		return time.Time{}, err
	}
	if m.count > manyStarts {
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
		r.log.DebugContext(ctx, "many starts were missed", "cronJob", queue.Key(r.cj), "starts", m.count)
	}
	return m.last, nil
}

// skipped says whether the start has its Job, is too late, or may not run beside
// the Job before it.
func (r *run) skipped(due time.Time) bool {
	if d := r.cj.Spec.StartingDeadlineSeconds; d != nil && due.Before(before(r.now, *d)) {
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s", due.UTC().Format(time.RFC1123Z))
		return true
	}
	name := jobName(r.cj, due)
	if slices.ContainsFunc(r.cj.Status.Active, func(a corev1.ObjectReference) bool { return a.Name == name && a.Namespace == r.cj.Namespace }) ||
		r.cj.Status.LastScheduleTime.Equal(&metav1.Time{Time: due}) {
		return true
	}
	if r.cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(r.cj.Status.Active) > 0 {
		r.Recorder.Eventf(r.cj, corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		return true
	}
	return false
}

// replace deletes the Jobs that run, where the policy says so.
func (r *run) replace(ctx context.Context) error {
	if r.cj.Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent {
		return nil
	}
	for _, a := range slices.Clone(r.cj.Status.Active) {
		job, err := r.client.BatchV1().Jobs(a.Namespace).Get(ctx, a.Name, metav1.GetOptions{})
		if err != nil {
			r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "FailedGet", "Get job: %v", err)
			return fmt.Errorf("get job %s/%s, which is to be replaced: %w", a.Namespace, a.Name, err)
		}
		if !r.deleteJob(ctx, job) {
			return queue.Quiet(fmt.Errorf("could not replace job %s/%s", job.Namespace, job.Name))
		}
	}
	return nil
}

// create makes the Job of a start. It returns nil if the Job exists already and the
// status need not list it.
func (r *run) create(ctx context.Context, due time.Time) (*batchv1.Job, error) {
	job, err := newJob(r.cj, due)
	if err != nil {
		return nil, err
	}
	made, err := r.client.BatchV1().Jobs(r.cj.Namespace).Create(ctx, job, metav1.CreateOptions{})
	switch {
	case err == nil:
		creationSkew.Observe(made.CreationTimestamp.Sub(due).Seconds())
		r.Recorder.Eventf(r.cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", made.Name)
		return made, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, err
	case !apierrors.IsAlreadyExists(err):
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			err = queue.Quiet(err) // the event says it to the author
		}
		return nil, err
	}
	// This controller made it and ended before it wrote the status; or it is of
	// another, which keeps a status of its own.
	made, err = r.client.BatchV1().Jobs(r.cj.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !metav1.IsControlledBy(made, r.cj) || isActive(r.cj, made.UID) {
		return nil, nil
	}
	return made, nil
}

// newJob is the Job of a start. The annotation has the start in the zone of the
// spec.
func newJob(cj *batchv1.CronJob, due time.Time) (*batchv1.Job, error) {
	in, err := zone(cj)
	if err != nil {
		return nil, err
	}
	template := cj.Spec.JobTemplate.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, template.Annotations)
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = due.In(in).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: jobName(cj, due), Labels: template.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, gvk)},
		},
		Spec: template.Spec,
	}, nil
}
