package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// isTrue: a condition of the type is true.
func isTrue(o *batchv1.Job, t batchv1.JobConditionType) bool { return has(o, t, corev1.ConditionTrue) }

func has(o *batchv1.Job, t batchv1.JobConditionType, s corev1.ConditionStatus) bool {
	for _, c := range o.Status.Conditions {
		if c.Type == t && c.Status == s {
			return true
		}
	}
	return false
}

func isFinished(o *batchv1.Job) bool {
	return isTrue(o, batchv1.JobComplete) || isTrue(o, batchv1.JobFailed)
}

// statusChange is what an update of a Job's status changes. Many rules hold only
// for what changed: a status that broke one when it was stored can still be
// updated in its other parts, and a change of the spec may break one until the
// controller has seen it.
type statusChange struct {
	finished, complete, failed, failureTarget, successCriteria  bool
	completedIndexes, failedIndexes, active, ready, terminating bool
	startTime, completionTime, uncounted                        bool
	resuming                                                    bool
}

func changeOf(o, old *batchv1.Job) statusChange {
	flipped := func(t batchv1.JobConditionType) bool { return isTrue(o, t) != isTrue(old, t) }
	now, was := &o.Status, &old.Status
	return statusChange{
		finished: isFinished(o) != isFinished(old), complete: flipped(batchv1.JobComplete), failed: flipped(batchv1.JobFailed),
		failureTarget: flipped(batchv1.JobFailureTarget), successCriteria: flipped(batchv1.JobSuccessCriteriaMet),
		completedIndexes: now.CompletedIndexes != was.CompletedIndexes, failedIndexes: !ptr.Equal(now.FailedIndexes, was.FailedIndexes),
		active: now.Active != was.Active, ready: !ptr.Equal(now.Ready, was.Ready), terminating: !ptr.Equal(now.Terminating, was.Terminating),
		startTime: !ptr.Equal(now.StartTime, was.StartTime), completionTime: !ptr.Equal(now.CompletionTime, was.CompletionTime),
		uncounted: !apiequality.Semantic.DeepEqual(now.UncountedTerminatedPods, was.UncountedTerminatedPods),
		// The client that resumes the Job has changed the spec already when the
		// controller says so in the status.
		resuming: isTrue(old, batchv1.JobSuspended) && has(o, batchv1.JobSuspended, corev1.ConditionFalse),
	}
}

func validateJobStatusUpdate(o, old *batchv1.Job) field.ErrorList {
	c := changeOf(o, old)
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateJobCounts(&o.Status)...)
	errs = append(errs, validateConditions(o, c)...)
	errs = append(errs, validateTimes(o, c)...)
	errs = append(errs, validateFinished(o, c)...)
	errs = append(errs, validateIndexLists(o, c)...)
	return append(errs, validateStatusTransition(o, old, c)...)
}

func validateJobCounts(s *batchv1.JobStatus) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name string
		n    int32
	}{
		{"active", s.Active}, {"succeeded", s.Succeeded}, {"failed", s.Failed},
		{"ready", ptr.Deref(s.Ready, 0)}, {"terminating", ptr.Deref(s.Terminating, 0)},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(n.n), statusPath.Child(n.name))...)
	}
	u := s.UncountedTerminatedPods
	if u == nil {
		return errs
	}
	seen := map[types.UID]bool{}
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", u.Succeeded}, {"failed", u.Failed}} {
		for i, uid := range list.uids {
			p := statusPath.Child("uncountedTerminatedPods", list.name).Index(i)
			switch {
			case uid == "":
				errs = append(errs, field.Invalid(p, uid, "must not be empty"))
			case seen[uid]:
				errs = append(errs, field.Duplicate(p, uid))
			}
			seen[uid] = true
		}
	}
	return errs
}

// validateConditions: a Job succeeds or fails, and says before it does that it
// will.
func validateConditions(o *batchv1.Job, c statusChange) field.ErrorList {
	complete, failed := isTrue(o, batchv1.JobComplete), isTrue(o, batchv1.JobFailed)
	target, met := isTrue(o, batchv1.JobFailureTarget), isTrue(o, batchv1.JobSuccessCriteriaMet)
	var errs field.ErrorList
	for _, rule := range []struct {
		broken bool
		words  string
	}{
		{(c.complete || c.failed) && complete && failed, "cannot set Complete=True and Failed=true conditions"},
		{(c.complete || c.failureTarget) && complete && target, "cannot set Complete=True and FailureTarget=true conditions"},
		{(c.failed || c.failedIndexes) && failed && !target, "cannot set Failed=True condition without the FailureTarget=true condition"},
		{(c.complete || c.successCriteria) && complete && !met, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"},
		{met && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"},
		{met && target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"},
		{o.Spec.SuccessPolicy != nil && !met && complete, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"},
	} {
		if rule.broken {
			errs = append(errs, field.Invalid(statusPath.Child("conditions"), field.OmitValueType{}, rule.words))
		}
	}
	return errs
}

// validateTimes: a Job that is complete, and no other, has a time of completion.
func validateTimes(o *batchv1.Job, c statusChange) field.ErrorList {
	s, path := &o.Status, statusPath.Child("completionTime")
	complete := isTrue(o, batchv1.JobComplete)
	var errs field.ErrorList
	if c.complete || c.completionTime {
		if s.CompletionTime != nil && !complete {
			errs = append(errs, field.Invalid(path, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
		}
		if s.CompletionTime == nil && complete {
			errs = append(errs, field.Required(path, "completionTime is required for Complete jobs"))
		}
	}
	if (c.startTime || c.completionTime) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(path, s.CompletionTime, "must be equal to or after `startTime`"))
	}
	return errs
}

// validateFinished: a Job that is finished has started, and nothing of it runs.
func validateFinished(o *batchv1.Job, c statusChange) field.ErrorList {
	s, finished := &o.Status, isFinished(o)
	var errs field.ErrorList
	if (c.finished || c.active) && finished && s.Active > 0 {
		errs = append(errs, field.Invalid(statusPath.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	// One that is suspended and has nothing to do is complete without a start.
	idle := ptr.Deref(o.Spec.Suspend, false) && ptr.Equal(o.Spec.Completions, ptr.To[int32](0))
	if (c.finished || c.startTime) && !idle && finished && s.StartTime == nil {
		errs = append(errs, field.Required(statusPath.Child("startTime"), "startTime is required for finished job"))
	}
	if u := s.UncountedTerminatedPods; (c.finished || c.uncounted) && finished && u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		errs = append(errs, field.Invalid(statusPath.Child("uncountedTerminatedPods"), u, "must be empty for finished job"))
	}
	if n := ptr.Deref(s.Terminating, 0); (c.finished || c.terminating) && finished && n > 0 {
		errs = append(errs, field.Invalid(statusPath.Child("terminating"), n, "terminating>0 is invalid for finished job"))
	}
	if n := s.Ready; (c.ready || c.active) && n != nil && *n > s.Active {
		errs = append(errs, field.Invalid(statusPath.Child("ready"), *n, "cannot set more ready pods than active"))
	}
	return errs
}

func validateIndexLists(o *batchv1.Job, c statusChange) field.ErrorList {
	s, completions := &o.Status, o.Spec.Completions
	completed, failed := statusPath.Child("completedIndexes"), statusPath.Child("failedIndexes")
	var errs field.ErrorList
	if c.completedIndexes {
		if completions != nil {
			if _, err := countIndexes(s.CompletedIndexes, *completions); err != nil {
				errs = append(errs, field.Invalid(completed, s.CompletedIndexes, fmt.Sprintf("error parsing completedIndexes: %s", err)))
			}
		}
		if s.CompletedIndexes != "" && !isIndexed(&o.Spec) {
			errs = append(errs, field.Invalid(completed, s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode"))
		}
	}
	if s.FailedIndexes == nil {
		return errs
	}
	if c.failedIndexes {
		if completions != nil && o.Spec.BackoffLimitPerIndex != nil {
			if _, err := countIndexes(*s.FailedIndexes, *completions); err != nil {
				errs = append(errs, field.Invalid(failed, *s.FailedIndexes, fmt.Sprintf("error parsing failedIndexes: %s", err)))
			}
		}
		if o.Spec.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Invalid(failed, *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
		}
	}
	if (c.failedIndexes || c.completedIndexes) && completions != nil {
		if err := apart(s.CompletedIndexes, *s.FailedIndexes, *completions); err != nil {
			errs = append(errs, field.Invalid(failed, *s.FailedIndexes, err.Error()))
		}
	}
	return errs
}

// validateStatusTransition: an end stays an end, and counts do not fall.
func validateStatusTransition(o, old *batchv1.Job, c statusChange) field.ErrorList {
	now, was := &o.Status, &old.Status
	conditions := statusPath.Child("conditions")
	var errs field.ErrorList
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if isTrue(old, t) && !isTrue(o, t) {
			errs = append(errs, field.Invalid(conditions, field.OmitValueType{}, fmt.Sprintf("cannot disable the terminal %s=True condition", t)))
		}
	}
	if now.Failed < was.Failed {
		errs = append(errs, field.Invalid(statusPath.Child("failed"), now.Failed, "cannot decrease the failed counter"))
	}
	// An indexed Job that grows and shrinks may lose indexes that succeeded.
	elastic := isIndexed(&o.Spec) && ptr.Equal(o.Spec.Completions, o.Spec.Parallelism)
	if now.Succeeded < was.Succeeded && !elastic {
		errs = append(errs, field.Invalid(statusPath.Child("succeeded"), now.Succeeded, "cannot decrease the succeeded counter"))
	}
	if c.completionTime && now.CompletionTime != nil && was.CompletionTime != nil {
		errs = append(errs, field.Invalid(statusPath.Child("completionTime"), now.CompletionTime, "field is immutable"))
	}
	if c.startTime && !c.resuming && was.StartTime != nil && !ptr.Deref(o.Spec.Suspend, false) {
		errs = append(errs, field.Invalid(statusPath.Child("startTime"), now.StartTime, "field is immutable for unsuspended job once set"))
	}
	met, hadMet := isTrue(o, batchv1.JobSuccessCriteriaMet), isTrue(old, batchv1.JobSuccessCriteriaMet)
	if hadMet && !met {
		errs = append(errs, field.Invalid(conditions, field.OmitValueType{}, "cannot disable the SuccessCriteriaMet=True condition"))
	}
	if isTrue(old, batchv1.JobComplete) && !hadMet && met {
		errs = append(errs, field.Invalid(conditions, field.OmitValueType{}, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"))
	}
	return errs
}
