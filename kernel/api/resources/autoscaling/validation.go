package autoscaling

import (
	"errors"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/features"
)

// Bounds of the rules of scaling, in seconds.
const (
	maxPeriod = 1800
	maxWindow = 3600
)

// groupRule is what is asked of the API version of a reference.
type groupRule int

const (
	groupRequired groupRule = iota
	groupOptional           // the core group is allowed
	groupAny                // nothing: the stored object has the same
)

func validateCreate(o *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	return append(errs, validateSpec(&o.Spec, nil)...)
}

func validateUpdate(o, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	return append(errs, validateSpec(&o.Spec, &old.Spec)...)
}

func validateStatusUpdate(o, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(o.Status.CurrentReplicas), statusPath.Child("currentReplicas"))...)
	return append(errs, apivalidation.ValidateNonnegativeField(int64(o.Status.DesiredReplicas), statusPath.Child("desiredReplicas"))...)
}

func validateSpec(s, old *autoscalingv2.HorizontalPodAutoscalerSpec) field.ErrorList {
	var errs field.ErrorList
	least := int32(1)
	if utilfeature.DefaultFeatureGate.Enabled(features.HPAScaleToZero) || old != nil && ptr.Equal(old.MinReplicas, ptr.To[int32](0)) {
		least = 0 // where the gate is off, what is stored stays
	}
	if s.MinReplicas != nil && *s.MinReplicas < least {
		errs = append(errs, field.Invalid(specPath.Child("minReplicas"), *s.MinReplicas, fmt.Sprintf("must be greater than or equal to %d", least)))
	}
	most := specPath.Child("maxReplicas")
	if s.MaxReplicas == 0 {
		errs = append(errs, field.Required(most, "must be set and greater than 0"))
	} else if s.MaxReplicas < 0 {
		errs = append(errs, field.Invalid(most, s.MaxReplicas, "must be greater than or equal to 1"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(most, s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateReference(&s.ScaleTargetRef, scaleTargetRule(s, old), specPath.Child("scaleTargetRef"))...)
	errs = append(errs, validateMetrics(s, describedObjectRule(old))...)
	if b := s.Behavior; b != nil {
		errs = append(errs, validateRules(b.ScaleUp, specPath.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(b.ScaleDown, specPath.Child("behavior", "scaleDown"))...)
	}
	return errs
}

func scaleTargetRule(s, old *autoscalingv2.HorizontalPodAutoscalerSpec) groupRule {
	to := &s.ScaleTargetRef
	switch {
	case old != nil && old.ScaleTargetRef.APIVersion == to.APIVersion && old.ScaleTargetRef.Kind == to.Kind:
		return groupAny
	case to.Kind == "ReplicationController":
		return groupOptional // the one of the core group that scales
	}
	return groupRequired
}

func describedObjectRule(old *autoscalingv2.HorizontalPodAutoscalerSpec) groupRule {
	if old != nil {
		for i := range old.Metrics {
			m := &old.Metrics[i]
			if m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && versionFault(m.Object.DescribedObject.APIVersion, groupOptional) != nil {
				return groupAny
			}
		}
	}
	return groupOptional
}

func versionFault(version string, rule groupRule) error {
	if rule == groupAny {
		return nil
	}
	gv, err := schema.ParseGroupVersion(version)
	if err == nil && rule == groupRequired && gv.Group == "" {
		err = errors.New("apiVersion must specify API group")
	}
	return err
}

func validateReference(r *autoscalingv2.CrossVersionObjectReference, rule groupRule, path *field.Path) field.ErrorList {
	errs := validateSegment(r.Kind, "", path.Child("kind"))
	errs = append(errs, validateSegment(r.Name, "", path.Child("name"))...)
	if err := versionFault(r.APIVersion, rule); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), r.APIVersion, err.Error()))
	}
	return errs
}

// validateSegment: required, and fit to be a part of a path.
func validateSegment(value, missing string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	var errs field.ErrorList
	for _, msg := range content.IsPathSegmentName(value) {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func validateRules(r *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if w := r.StabilizationWindowSeconds; w != nil {
		if *w < 0 {
			errs = append(errs, field.Invalid(path.Child("stabilizationWindowSeconds"), *w, "must be greater than or equal to zero"))
		}
		if *w > maxWindow {
			errs = append(errs, field.Invalid(path.Child("stabilizationWindowSeconds"), *w, fmt.Sprintf("must be less than or equal to %v", maxWindow)))
		}
	}
	selections := []autoscalingv2.ScalingPolicySelect{autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect}
	if r.SelectPolicy != nil && !slices.Contains(selections, *r.SelectPolicy) {
		errs = append(errs, field.NotSupported(path.Child("selectPolicy"), *r.SelectPolicy, selections))
	}
	policies := path.Child("policies")
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(policies, "must specify at least one Policy"))
	}
	for i := range r.Policies {
		errs = append(errs, validatePolicy(&r.Policies[i], policies.Index(i))...)
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), r.Tolerance.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}

func validatePolicy(p *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	types := []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}
	if !slices.Contains(types, p.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), p.Type, types))
	}
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), p.Value, "must be greater than zero"))
	}
	period := path.Child("periodSeconds")
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(period, p.PeriodSeconds, "must be greater than zero"))
	}
	if p.PeriodSeconds > maxPeriod {
		errs = append(errs, field.Invalid(period, p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", maxPeriod)))
	}
	return errs
}
