package resources

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func deploymentKind() Kind {
	gvk := appsv1.SchemeGroupVersion.WithKind("Deployment")
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	common := base{gvk: gvk, namespaced: true}
	return Kind{
		GVK: gvk, Resource: "deployments", Singular: "deployment", ShortNames: []string{"deploy"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &appsv1.Deployment{} },
		NewList: func() runtime.Object { return &appsv1.DeploymentList{} },
		Strategy: &rules[*appsv1.Deployment]{
			base: common.resetting([]any{"status"}),
			prepareCreate: func(o *appsv1.Deployment) {
				o.Status = appsv1.DeploymentStatus{}
				o.Generation = 1
				dropGatedFields(&o.Spec.Template.Spec, nil)
			},
			prepareUpdate: func(o, old *appsv1.Deployment) {
				o.Status = old.Status
				dropGatedFields(&o.Spec.Template.Spec, &old.Spec.Template.Spec)
				// Annotations count too: they are copied to the replica sets.
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) || !apiequality.Semantic.DeepEqual(o.Annotations, old.Annotations) {
					o.Generation = old.Generation + 1
				}
			},
			validate: func(o *appsv1.Deployment) field.ErrorList {
				errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				return append(errs, validateDeploymentSpec(&o.Spec, PodAllowances{}, specPath)...)
			},
			validateUpdate: func(o, old *appsv1.Deployment) field.ErrorList {
				errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				errs = append(errs, validateDeploymentSpec(&o.Spec, AllowancesOf(&old.Spec.Template), specPath)...)
				return append(errs, apivalidation.ValidateImmutableField(o.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
			},
			warnCreate: func(o *appsv1.Deployment) []string {
				return append(warnPodNamePrefix(o.Name), templateWarnings(templatePath, &o.Spec.Template)...)
			},
			warnUpdate: func(o, old *appsv1.Deployment) []string {
				if o.Generation == old.Generation {
					return nil
				}
				return templateWarnings(templatePath, &o.Spec.Template)
			},
		},
		Status: &rules[*appsv1.Deployment]{
			base: common.resetting([]any{"spec"}, []any{"metadata", "labels"}),
			prepareUpdate: func(o, old *appsv1.Deployment) {
				o.Spec, o.Labels = old.Spec, old.Labels
			},
			validateUpdate: validateDeploymentStatusUpdate,
		},
		Columns: cols(nameColumn(), stringColumn("Ready", "Number of the pod with ready state"),
			stringColumn("Up-to-date", status["updatedReplicas"]), stringColumn("Available", status["availableReplicas"]), ageColumn(),
			wideColumn("Containers", "Names of each container in the template."),
			wideColumn("Images", "Images referenced by each container in the template."),
			wideColumn("Selector", spec["selector"])),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*appsv1.Deployment)
			names, images := containerCells(o.Spec.Template.Spec.Containers)
			selector := "<invalid>"
			if s, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil {
				selector = s.String()
			}
			return []any{o.Name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, ptr.Deref(o.Spec.Replicas, 0)),
				int64(o.Status.UpdatedReplicas), int64(o.Status.AvailableReplicas), ageCell(o.CreationTimestamp), names, images, selector}, nil
		},
		Scale: &ScaleAccess{
			Replicas:    func(obj runtime.Object) int32 { return ptr.Deref(obj.(*appsv1.Deployment).Spec.Replicas, 0) },
			SetReplicas: func(obj runtime.Object, n int32) { obj.(*appsv1.Deployment).Spec.Replicas = &n },
			Status: func(obj runtime.Object) (int32, string) {
				o := obj.(*appsv1.Deployment)
				return o.Status.Replicas, selectorString(o.Spec.Selector)
			},
		},
	}
}

// setDeploymentDefaults: requirement D-7.
func setDeploymentDefaults(o *appsv1.Deployment) {
	s := &o.Spec
	if s.Replicas == nil {
		s.Replicas = ptr.To[int32](1)
	}
	if s.Strategy.Type == "" {
		s.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		if s.Strategy.RollingUpdate.MaxUnavailable == nil {
			s.Strategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("25%"))
		}
		if s.Strategy.RollingUpdate.MaxSurge == nil {
			s.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromString("25%"))
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = ptr.To[int32](10)
	}
	if s.ProgressDeadlineSeconds == nil {
		s.ProgressDeadlineSeconds = ptr.To[int32](600)
	}
	setPodTemplateDefaults(&s.Template)
}

func validateDeploymentSpec(s *appsv1.DeploymentSpec, allow PodAllowances, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(int64(ptr.Deref(s.Replicas, 0)), path.Child("replicas"))
	selector, serrs := validateWorkloadSelector(s.Selector, path.Child("selector"))
	errs = append(errs, serrs...)
	if selector != nil {
		// The words name a ReplicaSet, since the template becomes one's.
		errs = append(errs, validateReplicatedTemplate(&s.Template, allow, selector, "ReplicaSet", path.Child("template"))...)
	}
	errs = append(errs, validateDeploymentStrategy(&s.Strategy, path.Child("strategy"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	if s.RevisionHistoryLimit != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*s.RevisionHistoryLimit), path.Child("revisionHistoryLimit"))...)
	}
	if s.ProgressDeadlineSeconds != nil {
		p := path.Child("progressDeadlineSeconds")
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*s.ProgressDeadlineSeconds), p)...)
		if *s.ProgressDeadlineSeconds <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(p, s.ProgressDeadlineSeconds, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

func validateDeploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "this should be defaulted and never be nil")}
		}
		return validateRollingUpdate(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, *s, []string{
		string(appsv1.RecreateDeploymentStrategyType), string(appsv1.RollingUpdateDeploymentStrategyType),
	})}
}

func validateRollingUpdate(r *appsv1.RollingUpdateDeployment, path *field.Path) field.ErrorList {
	unavailable, surge := ptr.Deref(r.MaxUnavailable, intstr.IntOrString{}), ptr.Deref(r.MaxSurge, intstr.IntOrString{})
	errs := validateIntOrPercent(unavailable, path.Child("maxUnavailable"))
	errs = append(errs, validateIntOrPercent(surge, path.Child("maxSurge"))...)
	if intOrPercentValue(unavailable) == 0 && intOrPercentValue(surge) == 0 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, validateAtMost100Percent(unavailable, path.Child("maxUnavailable"))...)
}

func validateDeploymentStatusUpdate(o, old *appsv1.Deployment) field.ErrorList {
	errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	s := o.Status
	errs = append(errs, apivalidation.ValidateNonnegativeField(s.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	for _, c := range []struct {
		name string
		n    *int32
	}{
		{"replicas", &s.Replicas}, {"updatedReplicas", &s.UpdatedReplicas}, {"readyReplicas", &s.ReadyReplicas},
		{"availableReplicas", &s.AvailableReplicas}, {"unavailableReplicas", &s.UnavailableReplicas},
		{"terminatingReplicas", s.TerminatingReplicas}, {"collisionCount", s.CollisionCount},
	} {
		if c.n != nil {
			errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*c.n), statusPath.Child(c.name))...)
		}
	}
	errs = append(errs, notMoreThanReplicas(s.UpdatedReplicas, s.Replicas, statusPath.Child("updatedReplicas"))...)
	errs = append(errs, notMoreThanReplicas(s.ReadyReplicas, s.Replicas, statusPath.Child("readyReplicas"))...)
	errs = append(errs, notMoreThanReplicas(s.AvailableReplicas, s.Replicas, statusPath.Child("availableReplicas"))...)
	errs = append(errs, availableIsReady(s.AvailableReplicas, s.ReadyReplicas, statusPath)...)
	if was := old.Status.CollisionCount; was != nil && (s.CollisionCount == nil || *s.CollisionCount < *was) {
		errs = append(errs, field.Invalid(statusPath.Child("collisionCount"), ptr.Deref(s.CollisionCount, 0), "cannot be decremented"))
	}
	return errs
}
