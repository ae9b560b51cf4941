package batch

import (
	"fmt"
	"math"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

func jobKind() resources.Kind {
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	return resources.Kind{
		GVK: gvk, Resource: "jobs", Singular: "job", Categories: []string{"all"},
		New:     func() runtime.Object { return &batchv1.Job{} },
		NewList: func() runtime.Object { return &batchv1.JobList{} },
		Strategy: resources.Rules[*batchv1.Job]{
			// Deletes of batch/v1 have always left the pods, unless they ask.
			GVK: gvk, Namespaced: true, Reset: [][]any{{"status"}}, Orphan: true,
			PrepareCreate: func(o *batchv1.Job) {
				if !ptr.Deref(o.Spec.ManualSelector, false) {
					generateSelector(o)
				}
				o.Status = batchv1.JobStatus{}
				o.Generation = 1
				resources.DropGatedTemplateFields(&o.Spec.Template, nil)
			},
			PrepareUpdate: func(o, old *batchv1.Job) {
				o.Status = old.Status
				resources.DropGatedTemplateFields(&o.Spec.Template, &old.Spec.Template)
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate:       func(o *batchv1.Job) field.ErrorList { return validateJob(o, jobOptions{prefixedLabels: true}) },
			ValidateUpdate: validateJobUpdate,
			WarnCreate: func(o *batchv1.Job) []string {
				return append(resources.PodNameWarnings(o.Name), jobSpecWarnings(&o.Spec, specPath)...)
			},
			WarnUpdate: func(o, old *batchv1.Job) []string {
				if o.Generation == old.Generation {
					return nil
				}
				return jobSpecWarnings(&o.Spec, specPath)
			},
		}.Strategy(),
		Status: resources.Rules[*batchv1.Job]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"spec"}},
			PrepareUpdate:  func(o, old *batchv1.Job) { o.Spec = old.Spec },
			ValidateUpdate: validateJobStatusUpdate,
		}.Strategy(),
		FieldNames: []string{"status.successful"},
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{"status.successful": strconv.Itoa(int(obj.(*batchv1.Job).Status.Succeeded))}
		},
		Columns: jobColumns(),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*batchv1.Job)
			names, images := resources.ContainerCells(o.Spec.Template.Spec.Containers)
			return []any{o.Name, statusCell(o), completionsCell(o), durationCell(o), resources.AgeCell(o.CreationTimestamp),
				names, images, metav1.FormatLabelSelector(o.Spec.Selector)}, nil
		},
	}
}

func setJobDefaults(o *batchv1.Job) {
	s := &o.Spec
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = ptr.To[int32](1)
	}
	if s.Parallelism == nil {
		s.Parallelism = ptr.To[int32](1)
	}
	if s.BackoffLimit == nil {
		s.BackoffLimit = ptr.To[int32](6)
		if s.BackoffLimitPerIndex != nil {
			s.BackoffLimit = ptr.To[int32](math.MaxInt32)
		}
	}
	if s.Template.Labels != nil && len(o.Labels) == 0 {
		// The same map on purpose, as upstream's: a new Job has the generated
		// labels of its template too.
		o.Labels = s.Template.Labels
	}
	if s.CompletionMode == nil {
		s.CompletionMode = ptr.To(batchv1.NonIndexedCompletion)
	}
	if s.Suspend == nil {
		s.Suspend = ptr.To(false)
	}
	if s.PodReplacementPolicy == nil {
		s.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed)
		if s.PodFailurePolicy != nil {
			s.PodReplacementPolicy = ptr.To(batchv1.Failed)
		}
	}
	if s.ManualSelector == nil {
		s.ManualSelector = ptr.To(false)
	}
	setJobSpecDefaults(s)
}

// setJobSpecDefaults fills in what Jobs and the templates of CronJobs share.
func setJobSpecDefaults(s *batchv1.JobSpec) {
	if p := s.PodFailurePolicy; p != nil {
		for i := range p.Rules {
			for j := range p.Rules[i].OnPodConditions {
				if c := &p.Rules[i].OnPodConditions[j]; c.Status == "" {
					c.Status = corev1.ConditionTrue
				}
			}
		}
	}
	resources.SetPodTemplateDefaults(&s.Template)
}

// Labels that a Job's pods have: by their names of today, and by those of before
// they had a prefix.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// generateSelector gives the template labels that no other Job's has, and
// selects them. A conflict with what the client says is for the validation.
func generateSelector(o *batchv1.Job) {
	if o.Spec.Template.Labels == nil {
		o.Spec.Template.Labels = map[string]string{}
	}
	for _, l := range []struct{ key, value string }{
		{legacyJobName, o.Name}, {batchv1.JobNameLabel, o.Name},
		{legacyControllerUID, string(o.UID)}, {batchv1.ControllerUidLabel, string(o.UID)},
	} {
		if _, ok := o.Spec.Template.Labels[l.key]; !ok {
			o.Spec.Template.Labels[l.key] = l.value
		}
	}
	if o.Spec.Selector == nil {
		o.Spec.Selector = &metav1.LabelSelector{}
	}
	if o.Spec.Selector.MatchLabels == nil {
		o.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, ok := o.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !ok {
		o.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(o.UID)
	}
}

func jobSpecWarnings(s *batchv1.JobSpec, path *field.Path) []string {
	var w []string
	if isIndexed(s) && ptr.Deref(s.Completions, 0) > completionsSoftLimit && ptr.Deref(s.Parallelism, 0) > parallelismOfManyCompletions {
		w = append(w, fmt.Sprintf("%s: %s", path, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"))
	}
	return append(w, resources.PodTemplateWarnings(path.Child("template"), &s.Template)...)
}

func isIndexed(s *batchv1.JobSpec) bool {
	return ptr.Deref(s.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

func jobColumns() []metav1.TableColumnDefinition {
	return append([]metav1.TableColumnDefinition{
		resources.NameColumn(), resources.StringColumn("Status", "Status of the job."),
		resources.StringColumn("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
		resources.StringColumn("Duration", "Time required to complete the job."), resources.AgeColumn(),
	}, append(resources.ContainerColumns(), resources.WideColumn("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"]))...)
}

func statusCell(o *batchv1.Job) string {
	// A Job that ended stays so while it is deleted.
	for _, c := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if firstIsTrue(o, c) {
			return string(c)
		}
	}
	if o.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, c := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if firstIsTrue(o, c) {
			return string(c)
		}
	}
	return "Running"
}

// firstIsTrue: the first condition of the type is true.
func firstIsTrue(o *batchv1.Job, t batchv1.JobConditionType) bool {
	for _, c := range o.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func completionsCell(o *batchv1.Job) string {
	switch {
	case o.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", o.Status.Succeeded, *o.Spec.Completions)
	case ptr.Deref(o.Spec.Parallelism, 0) > 1:
		return fmt.Sprintf("%d/1 of %d", o.Status.Succeeded, *o.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", o.Status.Succeeded)
}

func durationCell(o *batchv1.Job) string {
	switch {
	case o.Status.StartTime == nil:
		return ""
	case o.Status.CompletionTime == nil:
		return duration.HumanDuration(time.Since(o.Status.StartTime.Time))
	}
	return duration.HumanDuration(o.Status.CompletionTime.Sub(o.Status.StartTime.Time))
}
