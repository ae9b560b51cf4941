package apps

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

func daemonSetKind() resources.Kind {
	gvk := appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	template := specPath.Child("template")
	return resources.Kind{
		GVK: gvk, Resource: "daemonsets", Singular: "daemonset", ShortNames: []string{"ds"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &appsv1.DaemonSet{} },
		NewList: func() runtime.Object { return &appsv1.DaemonSetList{} },
		Strategy: resources.Rules[*appsv1.DaemonSet]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"status"}},
			PrepareCreate: func(o *appsv1.DaemonSet) {
				o.Status = appsv1.DaemonSetStatus{}
				o.Generation = 1
				if n, err := templateGeneration(o); err == nil {
					setTemplateGeneration(o, max(n, 1))
				}
				resources.DropGatedTemplateFields(&o.Spec.Template, nil)
			},
			PrepareUpdate: prepareDaemonSetUpdate,
			Validate: func(o *appsv1.DaemonSet) field.ErrorList {
				errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				errs = append(errs, validateTemplateGeneration(o)...)
				return append(errs, validateDaemonSetSpec(&o.Spec, resources.PodAllowances{}, specPath)...)
			},
			ValidateUpdate: func(o, old *appsv1.DaemonSet) field.ErrorList {
				errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				errs = append(errs, validateTemplateGeneration(o)...)
				errs = append(errs, apivalidation.ValidateImmutableField(o.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
				allow := resources.AllowancesOf(&old.Spec.Template)
				allow.SelectorValues = allow.SelectorValues || metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
				return append(errs, validateDaemonSetSpec(&o.Spec, allow, specPath)...)
			},
			WarnCreate: func(o *appsv1.DaemonSet) []string { return resources.PodTemplateWarnings(template, &o.Spec.Template) },
			WarnUpdate: func(o, old *appsv1.DaemonSet) []string {
				if o.Annotations[appsv1.DeprecatedTemplateGeneration] == old.Annotations[appsv1.DeprecatedTemplateGeneration] {
					return nil
				}
				return resources.PodTemplateWarnings(template, &o.Spec.Template)
			},
		}.Strategy(),
		Status: resources.Rules[*appsv1.DaemonSet]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"spec"}},
			PrepareUpdate: func(o, old *appsv1.DaemonSet) {
				o.Spec = old.Spec
				keepTemplateGeneration(o, old)
			},
			ValidateUpdate: validateDaemonSetStatusUpdate,
		}.Strategy(),
		Columns: append([]metav1.TableColumnDefinition{
			resources.NameColumn(), resources.IntegerColumn("Desired", status["desiredNumberScheduled"]),
			resources.IntegerColumn("Current", status["currentNumberScheduled"]), resources.IntegerColumn("Ready", status["numberReady"]),
			resources.IntegerColumn("Up-to-date", status["updatedNumberScheduled"]), resources.IntegerColumn("Available", status["numberAvailable"]),
			resources.StringColumn("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]), resources.AgeColumn(),
		}, append(resources.ContainerColumns(), resources.WideColumn("Selector", spec["selector"]))...),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*appsv1.DaemonSet)
			names, images := resources.ContainerCells(o.Spec.Template.Spec.Containers)
			return []any{
				o.Name, int64(o.Status.DesiredNumberScheduled), int64(o.Status.CurrentNumberScheduled), int64(o.Status.NumberReady),
				int64(o.Status.UpdatedNumberScheduled), int64(o.Status.NumberAvailable), labels.FormatLabels(o.Spec.Template.Spec.NodeSelector),
				resources.AgeCell(o.CreationTimestamp), names, images, metav1.FormatLabelSelector(o.Spec.Selector),
			}, nil
		},
	}
}

func setDaemonSetDefaults(o *appsv1.DaemonSet) {
	s := &o.Spec
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		if s.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
			s.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		}
		if s.UpdateStrategy.RollingUpdate.MaxSurge == nil {
			s.UpdateStrategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
		}
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		// Of another strategy these mean nothing, and upstream shows zeros.
		for _, n := range []**intstr.IntOrString{&r.MaxUnavailable, &r.MaxSurge} {
			if *n == nil {
				*n = ptr.To(intstr.FromInt32(0))
			}
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = ptr.To[int32](10)
	}
	resources.SetPodTemplateDefaults(&s.Template)
	if _, ok := o.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
		setTemplateGeneration(o, 0)
	}
}

// templateGeneration counts the changes of the template. It was a field of the
// spec before v1 and is an annotation since.
func templateGeneration(o *appsv1.DaemonSet) (int64, error) {
	v, ok := o.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(v, 10, 64)
}

func setTemplateGeneration(o *appsv1.DaemonSet, n int64) {
	annotations := make(map[string]string, len(o.Annotations)+1)
	for k, v := range o.Annotations {
		annotations[k] = v
	}
	annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
	o.Annotations = annotations
}

// keepTemplateGeneration takes back what a client says of the count, except
// what is no number: validation refuses that.
func keepTemplateGeneration(o, old *appsv1.DaemonSet) {
	if _, err := templateGeneration(o); err != nil {
		return
	}
	if n, err := templateGeneration(old); err == nil {
		setTemplateGeneration(o, n)
	}
}

func validateTemplateGeneration(o *appsv1.DaemonSet) field.ErrorList {
	if _, err := templateGeneration(o); err != nil {
		return field.ErrorList{field.Invalid(metadataPath.Child("annotations").Key(appsv1.DeprecatedTemplateGeneration),
			o.Annotations[appsv1.DeprecatedTemplateGeneration], err.Error())}
	}
	return nil
}

func prepareDaemonSetUpdate(o, old *appsv1.DaemonSet) {
	resources.DropGatedTemplateFields(&o.Spec.Template, &old.Spec.Template)
	o.Status = old.Status
	keepTemplateGeneration(o, old)
	if !apiequality.Semantic.DeepEqual(old.Spec.Template, o.Spec.Template) {
		if n, err := templateGeneration(o); err == nil {
			setTemplateGeneration(o, n+1)
		}
		o.Generation = old.Generation + 1
		return
	}
	if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
		o.Generation = old.Generation + 1
	}
}

func validateDaemonSetSpec(s *appsv1.DaemonSetSpec, allow resources.PodAllowances, path *field.Path) field.ErrorList {
	opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: allow.SelectorValues}
	errs := metav1validation.ValidateLabelSelector(s.Selector, opts, path.Child("selector"))
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	if s.Selector != nil && len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), s.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, resources.ValidatePodTemplateSpec(&s.Template, allow, path.Child("template"))...)
	errs = append(errs, validateRunsForGood(&s.Template.Spec, "DaemonSet", path.Child("template", "spec"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	errs = append(errs, validateDaemonSetUpdateStrategy(&s.UpdateStrategy, path.Child("updateStrategy"))...)
	if n := s.RevisionHistoryLimit; n != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*n), path.Child("revisionHistoryLimit"))...)
	}
	return errs
}

// validateRunsForGood: pods of the kind restart always and do not end by a
// deadline.
func validateRunsForGood(s *corev1.PodSpec, kind string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), s.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

func validateDaemonSetUpdateStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "")}
		}
		return validateDaemonSetRollingUpdate(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, *s, []string{
		string(appsv1.RollingUpdateDaemonSetStrategyType), string(appsv1.OnDeleteDaemonSetStrategyType),
	})}
}

// validateDaemonSetRollingUpdate: pods are replaced either after the old ones
// are gone or before, not both.
func validateDaemonSetRollingUpdate(r *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	unavailable, surge := ptr.Deref(r.MaxUnavailable, intstr.IntOrString{}), ptr.Deref(r.MaxSurge, intstr.IntOrString{})
	errs := resources.ValidateIntOrPercent(unavailable, path.Child("maxUnavailable"))
	errs = append(errs, resources.ValidateIntOrPercent(surge, path.Child("maxSurge"))...)
	errs = append(errs, resources.ValidateAtMost100Percent(unavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, resources.ValidateAtMost100Percent(surge, path.Child("maxSurge"))...)
	switch hasUnavailable, hasSurge := resources.IntOrPercentValue(unavailable) != 0, resources.IntOrPercentValue(surge) != 0; {
	case hasUnavailable && hasSurge:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !hasUnavailable && !hasSurge:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateDaemonSetStatusUpdate(o, old *appsv1.DaemonSet) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateTemplateGeneration(o)...)
	s := &o.Status
	for _, c := range []named{
		{"currentNumberScheduled", int64(s.CurrentNumberScheduled)}, {"numberMisscheduled", int64(s.NumberMisscheduled)},
		{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)}, {"numberReady", int64(s.NumberReady)},
		{"observedGeneration", s.ObservedGeneration}, {"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		{"numberAvailable", int64(s.NumberAvailable)}, {"numberUnavailable", int64(s.NumberUnavailable)},
		{"collisionCount", int64(ptr.Deref(s.CollisionCount, 0))},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(c.n, statusPath.Child(c.name))...)
	}
	return append(errs, collisionCountKept(s.CollisionCount, old.Status.CollisionCount)...)
}
