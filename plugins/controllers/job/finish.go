package job

import (
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func condition(t batchv1.JobConditionType, s corev1.ConditionStatus, reason, message string, now time.Time) *batchv1.JobCondition {
	return &batchv1.JobCondition{
		Type: t, Status: s, Reason: reason, Message: message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
}

// trueCondition returns the Job's condition of the type if it is true.
func trueCondition(job *batchv1.Job, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// finished says that the Job ended and all its pods are counted.
func finished(job *batchv1.Job) bool {
	return trueCondition(job, batchv1.JobComplete) != nil || trueCondition(job, batchv1.JobFailed) != nil
}

// setCondition puts the condition in place of that of its type, and says
// whether anything changed. One that is false is not added.
func setCondition(s *batchv1.JobStatus, c *batchv1.JobCondition) bool {
	for i := range s.Conditions {
		if old := &s.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
				return false
			}
			*old = *c
			return true
		}
	}
	if c.Status == corev1.ConditionFalse {
		return false
	}
	s.Conditions = append(s.Conditions, *c)
	return true
}

func isSuspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

// managedElsewhere names the controller that the Job is left to, empty if it is
// this one.
func managedElsewhere(job *batchv1.Job) string {
	if by := ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName); by != batchv1.JobControllerName {
		return by
	}
	return ""
}

// replacesFailedOnly says that a pod is replaced when it has ended, not as soon
// as it is being deleted.
func replacesFailedOnly(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed || job.Spec.PodFailurePolicy != nil
}

// failed says that the pod failed, or counts as failed since it is being
// deleted and may never come to say so.
func failed(job *batchv1.Job, p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodFailed {
		return true
	}
	return !replacesFailedOnly(job) && p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded
}

// judge sets p.finish if the Job ends now, or is known to end: by what the
// status says already, then by failures, then by success. An end by all
// completions is judged later, when it is known which pods are left.
func (c *jobController) judge(p *pass) {
	job, now := p.job, c.clock.Now()
	fails := func(reason, message string) {
		p.finish = condition(batchv1.JobFailureTarget, corev1.ConditionTrue, reason, message, now)
	}
	if met := trueCondition(job, batchv1.JobSuccessCriteriaMet); met != nil {
		p.finish = ptr.To(*met)
		return
	}
	if target := trueCondition(job, batchv1.JobFailureTarget); target != nil {
		p.finish = condition(batchv1.JobFailed, corev1.ConditionTrue, target.Reason, target.Message, now)
		return
	}
	if message := p.failedByPolicy(); message != "" {
		fails(batchv1.JobReasonPodFailurePolicy, message)
		return
	}
	limit := ptr.Deref(job.Spec.BackoffLimit, 6)
	left, timed := untilDeadline(job, now)
	switch {
	case p.failed > limit || restartedTooOften(job, p.pods, limit):
		fails(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		return
	case timed && left <= 0:
		fails(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
		return
	case timed:
		c.AddAfter(p.key, min(left, longestLook))
	}
	if !p.indexed {
		return
	}
	if job.Spec.BackoffLimitPerIndex != nil {
		n := p.failedIndexes.total()
		switch {
		case job.Spec.MaxFailedIndexes != nil && n > int(*job.Spec.MaxFailedIndexes):
			fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
			return
		case n > 0 && n+p.done.total() >= p.completions:
			fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
			return
		}
	}
	if message, met := succeeds(job.Spec.SuccessPolicy, p.completions, p.done); met {
		p.finish = condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonSuccessPolicy, message, now)
	}
}

// failedByPolicy is the message of the first pod by which the Job fails.
func (p *pass) failedByPolicy() string {
	if p.job.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, pod := range p.pods {
		if failed(p.job, pod) {
			if r := rule(p.job.Spec.PodFailurePolicy, pod); r.message != "" {
				return r.message
			}
		}
	}
	return ""
}

// restartedTooOften compares the restarts of containers with the limit, for
// pods whose containers are restarted in place.
func restartedTooOften(job *batchv1.Job, pods []*corev1.Pod, limit int32) bool {
	if job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var n int64
	for _, p := range pods {
		if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodPending {
			continue
		}
		for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for _, s := range list {
				n += int64(s.RestartCount)
			}
		}
	}
	return n > 0 && n >= int64(limit)
}

// untilDeadline is how long the Job may still be active; timed is false if it
// has no deadline, or its time does not run.
func untilDeadline(job *batchv1.Job, now time.Time) (left time.Duration, timed bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil || isSuspended(job) {
		return 0, false
	}
	// A deadline in hundreds of years must not become one in the past.
	seconds := min(*job.Spec.ActiveDeadlineSeconds, int64(math.MaxInt64/time.Second))
	return time.Duration(seconds)*time.Second - now.Sub(job.Status.StartTime.Time), true
}

// completed says whether the Job has what it asks for and none of its pods is
// active.
func (p *pass) completed(active int32) bool {
	if active != 0 {
		return false
	}
	if p.job.Spec.Completions == nil {
		return p.succeeded > 0
	}
	return int(p.succeeded) >= p.completions
}

// suspension brings the condition Suspended in line with the spec and says
// whether it changed. The time of the start is that of the last resumption.
func (c *jobController) suspension(job *batchv1.Job) bool {
	now := c.clock.Now()
	if isSuspended(job) {
		if !setCondition(&job.Status, condition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now)) {
			return false
		}
		c.Recorder.Event(job, corev1.EventTypeNormal, "Suspended", "Job suspended")
		job.Status.StartTime = nil
		return true
	}
	if !setCondition(&job.Status, condition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now)) {
		return false
	}
	c.Recorder.Event(job, corev1.EventTypeNormal, "Resumed", "Job resumed")
	job.Status.StartTime = ptr.To(metav1.NewTime(now))
	return true
}
