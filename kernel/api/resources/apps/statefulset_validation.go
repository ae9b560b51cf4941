package apps

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// lenience is what an update does not check, since it may have been stored
// before it was forbidden and cannot be changed.
type lenience struct {
	serviceName, template, claimTemplates bool
	pods                                  resources.PodAllowances
}

func validateStatefulSetSpec(s *appsv1.StatefulSetSpec, path *field.Path, spare lenience) field.ErrorList {
	var errs field.ErrorList
	add := func(e field.ErrorList) { errs = append(errs, e...) }
	switch p := path.Child("podManagementPolicy"); s.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	case "":
		errs = append(errs, field.Required(p, ""))
	default:
		errs = append(errs, field.Invalid(p, s.PodManagementPolicy, fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	add(validateStatefulSetUpdateStrategy(&s.UpdateStrategy, path.Child("updateStrategy")))
	if r := s.PersistentVolumeClaimRetentionPolicy; r != nil {
		p := path.Child("persistentVolumeClaimRetentionPolicy")
		add(validateRetention(r.WhenDeleted, p.Child("whenDeleted")))
		add(validateRetention(r.WhenScaled, p.Child("whenScaled")))
	}
	if !spare.claimTemplates {
		for i := range s.VolumeClaimTemplates {
			add(resources.ValidateClaimSpec(&s.VolumeClaimTemplates[i].Spec, path.Child("volumeClaimTemplates").Index(i).Child("spec")))
		}
	}
	add(apivalidation.ValidateNonnegativeField(int64(ptr.Deref(s.Replicas, 0)), path.Child("replicas")))
	add(apivalidation.ValidateNonnegativeField(int64(s.MinReadySeconds), path.Child("minReadySeconds")))
	if s.Ordinals != nil {
		add(apivalidation.ValidateNonnegativeField(int64(s.Ordinals.Start), path.Child("ordinals.start")))
	}
	if !spare.serviceName && s.ServiceName != "" {
		for _, msg := range validation.IsDNS1123Label(s.ServiceName) {
			errs = append(errs, field.Invalid(path.Child("serviceName"), s.ServiceName, msg))
		}
	}
	if s.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		add(metav1validation.ValidateLabelSelector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector")))
		if len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path.Child("selector"), s.Selector, "empty selector is invalid for statefulset"))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), s.Selector, ""))
	} else {
		add(validateStatefulSetTemplate(s, selector, path.Child("template"), spare))
	}
	add(validateRunsForGood(&s.Template.Spec, "StatefulSet", path.Child("template", "spec")))
	return errs
}

// validateStatefulSetTemplate checks the template as its pods will be: the
// controller gives each its hostname, its subdomain and its claims' volumes.
func validateStatefulSetTemplate(s *appsv1.StatefulSetSpec, selector labels.Selector, path *field.Path, spare lenience) field.ErrorList {
	t := &s.Template
	if t.Spec.Subdomain != "" || t.Spec.Hostname != "" || len(s.VolumeClaimTemplates) > 0 {
		t = t.DeepCopy()
		t.Spec.Subdomain, t.Spec.Hostname = "", ""
		t.Spec.Volumes = volumesWithClaims(t.Spec.Volumes, s.VolumeClaimTemplates)
	}
	var errs field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	if !spare.template {
		errs = append(errs, resources.ValidatePodTemplateSpec(t, spare.pods, path)...)
	}
	errs = append(errs, metav1validation.ValidateLabels(t.Labels, path.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	return append(errs, resources.ValidatePodAnnotations(t, spare.pods, path.Child("annotations"))...)
}

// volumesWithClaims has a volume a claim's template, in place of one of the same
// name.
func volumesWithClaims(volumes []corev1.Volume, claims []corev1.PersistentVolumeClaim) []corev1.Volume {
	if len(claims) == 0 {
		return volumes
	}
	named := func(list []corev1.Volume, name string) bool {
		return slices.ContainsFunc(list, func(v corev1.Volume) bool { return v.Name == name })
	}
	var out []corev1.Volume
	for i := range claims {
		if name := claims[i].Name; !named(out, name) {
			out = append(out, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
	of := out[:len(out):len(out)]
	for _, v := range volumes {
		if !named(of, v.Name) {
			out = append(out, v)
		}
	}
	return out
}

func validateStatefulSetUpdateStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	rolling := path.Child("rollingUpdate")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(rolling, s.RollingUpdate, fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
		r := s.RollingUpdate
		if r == nil {
			return nil
		}
		errs := apivalidation.ValidateNonnegativeField(int64(ptr.Deref(r.Partition, 0)), rolling.Child("partition"))
		if n := r.MaxUnavailable; n != nil {
			p := rolling.Child("maxUnavailable")
			errs = append(errs, resources.ValidateIntOrPercent(*n, p)...)
			if resources.IntOrPercentValue(*n) == 0 {
				errs = append(errs, field.Invalid(p, *n, "cannot be 0"))
			}
			errs = append(errs, resources.ValidateAtMost100Percent(*n, p)...)
		}
		return errs
	}
	return field.ErrorList{field.Invalid(path, *s, fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
}

func validateRetention(p appsv1.PersistentVolumeClaimRetentionPolicyType, path *field.Path) field.ErrorList {
	known := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	if slices.Contains(known, p) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, p, known)}
}

func validateStatefulSetUpdate(o, old *appsv1.StatefulSet) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	spare := lenience{serviceName: true, claimTemplates: true, pods: resources.AllowancesOf(&old.Spec.Template)}
	spare.template = len(validateStatefulSetSpec(&old.Spec, nil, spare)) > 0
	errs = append(errs, validateStatefulSetSpec(&o.Spec, specPath, spare)...)

	// Everything but these is for good.
	now := o.Spec
	was := &old.Spec
	now.Replicas, now.Template, now.UpdateStrategy, now.MinReadySeconds = was.Replicas, was.Template, was.UpdateStrategy, was.MinReadySeconds
	now.Ordinals, now.RevisionHistoryLimit = was.Ordinals, was.RevisionHistoryLimit
	now.PersistentVolumeClaimRetentionPolicy = was.PersistentVolumeClaimRetentionPolicy
	if !apiequality.Semantic.DeepEqual(now, *was) {
		errs = append(errs, field.Forbidden(specPath, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "+
			"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return errs
}

func validateStatefulSetStatusUpdate(o, old *appsv1.StatefulSet) field.ErrorList {
	s := &o.Status
	var errs field.ErrorList
	for _, c := range []named{
		{"replicas", int64(s.Replicas)}, {"readyReplicas", int64(s.ReadyReplicas)}, {"currentReplicas", int64(s.CurrentReplicas)},
		{"updatedReplicas", int64(s.UpdatedReplicas)}, {"availableReplicas", int64(s.AvailableReplicas)},
		{"observedGeneration", s.ObservedGeneration}, {"collisionCount", int64(ptr.Deref(s.CollisionCount, 0))},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(c.n, statusPath.Child(c.name))...)
	}
	for _, c := range []named{
		{"readyReplicas", int64(s.ReadyReplicas)}, {"currentReplicas", int64(s.CurrentReplicas)},
		{"updatedReplicas", int64(s.UpdatedReplicas)}, {"availableReplicas", int64(s.AvailableReplicas)},
	} {
		if c.n > int64(s.Replicas) {
			errs = append(errs, field.Invalid(statusPath.Child(c.name), c.n, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(statusPath.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than status.readyReplicas"))
	}
	errs = append(errs, resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, collisionCountKept(s.CollisionCount, old.Status.CollisionCount)...)
}
