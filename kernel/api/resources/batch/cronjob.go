package batch

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

func cronJobKind() resources.Kind {
	gvk := batchv1.SchemeGroupVersion.WithKind("CronJob")
	jobSpec := specPath.Child("jobTemplate", "spec")
	return resources.Kind{
		GVK: gvk, Resource: "cronjobs", Singular: "cronjob", ShortNames: []string{"cj"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &batchv1.CronJob{} },
		NewList: func() runtime.Object { return &batchv1.CronJobList{} },
		Strategy: resources.Rules[*batchv1.CronJob]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"status"}},
			PrepareCreate: func(o *batchv1.CronJob) {
				o.Status = batchv1.CronJobStatus{}
				o.Generation = 1
				resources.DropGatedTemplateFields(&o.Spec.JobTemplate.Spec.Template, nil)
			},
			PrepareUpdate: func(o, old *batchv1.CronJob) {
				o.Status = old.Status
				resources.DropGatedTemplateFields(&o.Spec.JobTemplate.Spec.Template, &old.Spec.JobTemplate.Spec.Template)
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate:       validateCronJob,
			ValidateUpdate: validateCronJobUpdate,
			WarnCreate: func(o *batchv1.CronJob) []string {
				return append(resources.PodNameWarnings(o.Name), jobSpecWarnings(&o.Spec.JobTemplate.Spec, jobSpec)...)
			},
			WarnUpdate: func(o, old *batchv1.CronJob) []string {
				var w []string
				if o.Generation != old.Generation {
					w = jobSpecWarnings(&o.Spec.JobTemplate.Spec, jobSpec)
				}
				if strings.Contains(o.Spec.Schedule, "TZ") {
					// The path in this warning is upstream's.
					w = append(w, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "+
						"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
				}
				return w
			},
		}.Strategy(),
		Status: resources.Rules[*batchv1.CronJob]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"spec"}},
			PrepareUpdate: func(o, old *batchv1.CronJob) { o.Spec = old.Spec },
		}.Strategy(),
		Columns: cronJobColumns(),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*batchv1.CronJob)
			last, suspend := "<none>", "<unset>"
			if t := o.Status.LastScheduleTime; t != nil {
				last = resources.AgeCell(*t)
			}
			if s := o.Spec.Suspend; s != nil {
				suspend = "False"
				if *s {
					suspend = "True"
				}
			}
			template := &o.Spec.JobTemplate.Spec
			names, images := resources.ContainerCells(template.Template.Spec.Containers)
			return []any{o.Name, o.Spec.Schedule, ptr.Deref(o.Spec.TimeZone, "<none>"), suspend, int64(len(o.Status.Active)), last,
				resources.AgeCell(o.CreationTimestamp), names, images, metav1.FormatLabelSelector(template.Selector)}, nil
		},
	}
}

func setCronJobDefaults(o *batchv1.CronJob) {
	s := &o.Spec
	if s.ConcurrencyPolicy == "" {
		s.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	if s.Suspend == nil {
		s.Suspend = ptr.To(false)
	}
	if s.SuccessfulJobsHistoryLimit == nil {
		s.SuccessfulJobsHistoryLimit = ptr.To[int32](3)
	}
	if s.FailedJobsHistoryLimit == nil {
		s.FailedJobsHistoryLimit = ptr.To[int32](1)
	}
	setJobSpecDefaults(&s.JobTemplate.Spec)
}

func cronJobColumns() []metav1.TableColumnDefinition {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	suspend := resources.StringColumn("Suspend", spec["suspend"])
	suspend.Type = "boolean"
	return append([]metav1.TableColumnDefinition{
		resources.NameColumn(), resources.StringColumn("Schedule", spec["schedule"]), resources.StringColumn("Timezone", spec["timeZone"]),
		suspend, resources.IntegerColumn("Active", status["active"]), resources.StringColumn("Last Schedule", status["lastScheduleTime"]),
		resources.AgeColumn(),
	}, append(resources.ContainerColumns(), resources.WideColumn("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"]))...)
}
