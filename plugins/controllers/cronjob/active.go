package cronjob

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func isActive(cj *batchv1.CronJob, uid types.UID) bool {
	return slices.ContainsFunc(cj.Status.Active, func(a corev1.ObjectReference) bool { return a.UID == uid })
}

func (r *run) dropActive(uid types.UID) {
	if isActive(r.cj, uid) {
		r.cj.Status.Active = slices.DeleteFunc(r.cj.Status.Active, func(a corev1.ObjectReference) bool { return a.UID == uid })
		r.changed = true
	}
}

// refresh reads the CronJob from the API where the cached one does not know of a Job
// that runs, or has one as active that is gone: the cache of CronJobs may be behind that
// of Jobs.
func (r *run) refresh(ctx context.Context) error {
	unknown := func(job *batchv1.Job) bool { return outcome(job) == "" && !isActive(r.cj, job.UID) }
	gone := func(a corev1.ObjectReference) bool {
		return !slices.ContainsFunc(r.jobs, func(job *batchv1.Job) bool { return job.UID == a.UID })
	}
	if !slices.ContainsFunc(r.jobs, unknown) && !slices.ContainsFunc(r.cj.Status.Active, gone) {
		return nil
	}
	fresh, err := r.client.BatchV1().CronJobs(r.cj.Namespace).Get(ctx, r.cj.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get cron job %s/%s: %w", r.cj.Namespace, r.cj.Name, err)
	}
	if fresh.UID == r.cj.UID {
		r.cj = fresh
	}
	return nil
}

// observe brings the status in line with the Jobs.
func (r *run) observe(ctx context.Context) error {
	status := &r.cj.Status
	there := make(map[types.UID]bool, len(r.jobs))
	for _, job := range r.jobs {
		there[job.UID] = true
		ended, active := outcome(job), isActive(r.cj, job.UID)
		if ended == "" {
			if !active {
				// It was made by hand, or by this controller, which then ended before
				// it wrote the status.
				r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", job.Name)
			}
			continue
		}
		if active {
			r.dropActive(job.UID)
			r.Recorder.Eventf(r.cj, corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", job.Name, ended)
		}
		if done := job.Status.CompletionTime; ended == batchv1.JobComplete && done != nil &&
			(status.LastSuccessfulTime == nil || done.After(status.LastSuccessfulTime.Time)) {
			status.LastSuccessfulTime = done.DeepCopy()
			r.changed = true
		}
	}
	for _, a := range slices.Clone(status.Active) {
		if there[a.UID] {
			continue
		}
		// The cache may be behind: a Job that the API has is active.
		_, err := r.client.BatchV1().Jobs(a.Namespace).Get(ctx, a.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.Recorder.Eventf(r.cj, corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", a.Name)
			r.dropActive(a.UID)
		case err != nil:
			return fmt.Errorf("get active job %s/%s: %w", a.Namespace, a.Name, err)
		}
	}
	return nil
}
