package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of what the job controller reads for each pod that ends.
const (
	maxFailureRules         = 20
	maxExitCodes            = 255
	maxConditionPatterns    = 20
	maxSuccessRules         = 20
	maxSucceededIndexesSize = 64 * 1024
)

var (
	failureActions = []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
	}
	exitCodeOperators = []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn,
	}
	conditionStates = []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
)

// supported: the value is one of those given, which are in order.
func supported[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}

// oneOf is supported, with an error of its own where there is no value.
func oneOf[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", values))}
	}
	return supported(path, value, values...)
}

func validatePodFailurePolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := path.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxFailureRules {
		errs = append(errs, field.TooMany(rules, n, maxFailureRules))
	}
	for i := range s.PodFailurePolicy.Rules {
		errs = append(errs, validateFailureRule(s, &s.PodFailurePolicy.Rules[i], rules.Index(i))...)
	}
	return errs
}

func validateFailureRule(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("action"), r.Action, failureActions...)
	if r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(path.Child("action"), r.Action, "requires the backoffLimitPerIndex to be set"))
	}
	if r.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(s, r.OnExitCodes, path.Child("onExitCodes"))...)
	}
	errs = append(errs, validateConditionPatterns(r.OnPodConditions, path.Child("onPodConditions"))...)
	switch codes, conditions := r.OnExitCodes != nil, len(r.OnPodConditions) > 0; {
	case codes && conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateConditionPatterns(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := len(patterns); n > maxConditionPatterns {
		errs = append(errs, field.TooMany(path, n, maxConditionPatterns))
	}
	for i, p := range patterns {
		for _, msg := range validation.IsQualifiedName(string(p.Type)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("type"), string(p.Type), msg))
		}
		errs = append(errs, oneOf(path.Index(i).Child("status"), p.Status, conditionStates...)...)
	}
	return errs
}

func validateExitCodes(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("operator"), r.Operator, exitCodeOperators...)
	if name := r.ContainerName; name != nil {
		is := func(c corev1.Container) bool { return c.Name == *name }
		if !slices.ContainsFunc(s.Template.Spec.Containers, is) && !slices.ContainsFunc(s.Template.Spec.InitContainers, is) {
			errs = append(errs, field.Invalid(path.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template"))
		}
	}
	values := path.Child("values")
	if n := len(r.Values); n == 0 {
		errs = append(errs, field.Invalid(values, r.Values, "at least one value is required"))
	} else if n > maxExitCodes {
		errs = append(errs, field.TooMany(values, n, maxExitCodes))
	}
	seen := make(map[int32]bool, len(r.Values))
	for i, code := range r.Values {
		if code == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(values.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen[code] {
			errs = append(errs, field.Duplicate(values.Index(i), code))
		}
		seen[code] = true
	}
	if !slices.IsSorted(r.Values) {
		errs = append(errs, field.Invalid(values, r.Values, "must be ordered"))
	}
	return errs
}

func validateSuccessPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := path.Child("rules")
	switch n := len(s.SuccessPolicy.Rules); {
	case n == 0:
		errs = append(errs, field.Required(rules, "at least one rules must be specified when the successPolicy is specified"))
	case n > maxSuccessRules:
		errs = append(errs, field.TooMany(rules, n, maxSuccessRules))
	}
	if s.Completions == nil {
		// The completions are missed elsewhere, and there is nothing to count by.
		return errs
	}
	for i := range s.SuccessPolicy.Rules {
		errs = append(errs, validateSuccessRule(&s.SuccessPolicy.Rules[i], *s.Completions, rules.Index(i))...)
	}
	return errs
}

func validateSuccessRule(r *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		errs = append(errs, field.Required(path, "at least one of succeededCount or succeededIndexes must be specified"))
	}
	var indexes int32
	if r.SucceededIndexes != nil {
		p := path.Child("succeededIndexes")
		if len(*r.SucceededIndexes) > maxSucceededIndexesSize {
			errs = append(errs, field.TooLong(p, "", maxSucceededIndexesSize))
		}
		var err error
		if indexes, err = countIndexes(*r.SucceededIndexes, completions); err != nil {
			errs = append(errs, field.Invalid(p, *r.SucceededIndexes, fmt.Sprintf("error parsing succeededIndexes: %s", err)))
		}
	}
	if n := r.SucceededCount; n != nil {
		p := path.Child("succeededCount")
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*n), p)...)
		if *n > completions {
			errs = append(errs, field.Invalid(p, *n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if r.SucceededIndexes != nil && *n > indexes {
			errs = append(errs, field.Invalid(p, *n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", indexes)))
		}
	}
	return errs
}
