package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func replicaSetKind() Kind {
	gvk := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	common := base{gvk: gvk, namespaced: true}
	return Kind{
		GVK: gvk, Resource: "replicasets", Singular: "replicaset", ShortNames: []string{"rs"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &appsv1.ReplicaSet{} },
		NewList: func() runtime.Object { return &appsv1.ReplicaSetList{} },
		Strategy: &rules[*appsv1.ReplicaSet]{
			base: common.resetting([]any{"status"}),
			prepareCreate: func(o *appsv1.ReplicaSet) {
				o.Status = appsv1.ReplicaSetStatus{}
				o.Generation = 1
				dropGatedFields(&o.Spec.Template.Spec, nil)
			},
			prepareUpdate: func(o, old *appsv1.ReplicaSet) {
				o.Status = old.Status
				dropGatedFields(&o.Spec.Template.Spec, &old.Spec.Template.Spec)
				if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			validate: func(o *appsv1.ReplicaSet) field.ErrorList {
				errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				return append(errs, validateReplicaSetSpec(&o.Spec, PodAllowances{}, specPath)...)
			},
			validateUpdate: func(o, old *appsv1.ReplicaSet) field.ErrorList {
				errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				errs = append(errs, validateReplicaSetSpec(&o.Spec, AllowancesOf(&old.Spec.Template), specPath)...)
				return append(errs, apivalidation.ValidateImmutableField(o.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
			},
			warnCreate: func(o *appsv1.ReplicaSet) []string {
				return append(warnPodNamePrefix(o.Name), templateWarnings(templatePath, &o.Spec.Template)...)
			},
			warnUpdate: func(o, old *appsv1.ReplicaSet) []string {
				if o.Generation == old.Generation {
					return nil
				}
				return templateWarnings(templatePath, &o.Spec.Template)
			},
		},
		Status: &rules[*appsv1.ReplicaSet]{
			base:          common.resetting([]any{"spec"}),
			prepareUpdate: func(o, old *appsv1.ReplicaSet) { o.Spec = old.Spec },
			validateUpdate: func(o, old *appsv1.ReplicaSet) field.ErrorList {
				errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				s := o.Status
				return append(errs, validateReplicaCounts(replicaCounts{
					replicas: s.Replicas, fullyLabeled: s.FullyLabeledReplicas, ready: s.ReadyReplicas, available: s.AvailableReplicas,
					terminating: s.TerminatingReplicas, observedGeneration: s.ObservedGeneration,
				}, statusPath)...)
			},
		},
		Columns: replicatedColumns(spec, status),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*appsv1.ReplicaSet)
			return replicatedRow(o, o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, &o.Spec.Template, metav1.FormatLabelSelector(o.Spec.Selector)), nil
		},
		Scale: &ScaleAccess{
			Replicas:    func(obj runtime.Object) int32 { return ptr.Deref(obj.(*appsv1.ReplicaSet).Spec.Replicas, 0) },
			SetReplicas: func(obj runtime.Object, n int32) { obj.(*appsv1.ReplicaSet).Spec.Replicas = &n },
			Status: func(obj runtime.Object) (int32, string) {
				o := obj.(*appsv1.ReplicaSet)
				return o.Status.Replicas, selectorString(o.Spec.Selector)
			},
		},
	}
}

func setReplicaSetDefaults(o *appsv1.ReplicaSet) {
	if o.Spec.Replicas == nil {
		o.Spec.Replicas = ptr.To[int32](1)
	}
	setPodTemplateDefaults(&o.Spec.Template)
}

func validateReplicaSetSpec(s *appsv1.ReplicaSetSpec, allow PodAllowances, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(int64(ptr.Deref(s.Replicas, 0)), path.Child("replicas"))
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	selector, serrs := validateWorkloadSelector(s.Selector, path.Child("selector"))
	errs = append(errs, serrs...)
	if selector != nil {
		errs = append(errs, validateReplicatedTemplate(&s.Template, allow, selector, "ReplicaSet", path.Child("template"))...)
	}
	return errs
}

// validateWorkloadSelector checks the selector of a Deployment or ReplicaSet.
// The selector is nil where it cannot be read.
func validateWorkloadSelector(s *metav1.LabelSelector, path *field.Path) (labels.Selector, field.ErrorList) {
	var errs field.ErrorList
	if s == nil {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)...)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path, s, "empty selector is invalid for deployment"))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, append(errs, field.Invalid(path, s, "invalid label selector"))
	}
	return selector, errs
}
