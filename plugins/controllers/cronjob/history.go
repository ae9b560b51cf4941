package cronjob

import (
	"cmp"
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome is how a Job ended: JobComplete, JobFailed, or empty for one that has
// not ended.
func outcome(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// prune deletes the oldest of the finished Jobs beyond the limits.
func (r *run) prune(ctx context.Context) {
	for _, kept := range []struct {
		outcome batchv1.JobConditionType
		limit   *int32
	}{{batchv1.JobComplete, r.cj.Spec.SuccessfulJobsHistoryLimit}, {batchv1.JobFailed, r.cj.Spec.FailedJobsHistoryLimit}} {
		if kept.limit == nil {
			continue
		}
		var ended []*batchv1.Job
		for _, job := range r.jobs {
			if outcome(job) == kept.outcome {
				ended = append(ended, job)
			}
		}
		excess := len(ended) - int(*kept.limit)
		if excess <= 0 {
			continue
		}
		slices.SortFunc(ended, byStart)
		for _, job := range ended[:excess] {
			if job.DeletionTimestamp == nil {
				r.deleteJob(ctx, job)
			}
		}
	}
}

// byStart puts the Job that started first in front, and those that never started
// at the end.
func byStart(a, b *batchv1.Job) int {
	sa, sb := a.Status.StartTime, b.Status.StartTime
	switch {
	case sa == nil && sb != nil:
		return 1
	case sa != nil && sb == nil:
		return -1
	case sa != nil && !sa.Equal(sb):
		return sa.Compare(sb.Time)
	}
	return cmp.Compare(a.Name, b.Name)
}

// deleteJob deletes a Job, in the background its pods, and takes it off the list of
// active ones. It says whether the Job is deleted.
func (r *run) deleteJob(ctx context.Context, job *batchv1.Job) bool {
	policy := metav1.DeletePropagationBackground
	err := r.client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: metav1.NewUIDPreconditions(string(job.UID)),
	})
	if err != nil {
		r.Recorder.Eventf(r.cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		r.log.DebugContext(ctx, "a job could not be deleted", "job", job.Namespace+"/"+job.Name, "error", err)
		return false
	}
	r.dropActive(job.UID)
	r.Recorder.Eventf(r.cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", job.Name)
	return true
}
