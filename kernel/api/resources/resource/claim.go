package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"pintle.dev/pintle/kernel/api/resources"
)

// requests are the names of a claim's requests, with those of their alternatives.
type requests map[string]map[string]struct{}

func requestsOf(c *resourcev1.DeviceClaim) requests {
	out := requests{}
	for _, r := range c.Requests {
		out[r.Name] = nil
		for _, sub := range r.FirstAvailable {
			if out[r.Name] == nil {
				out[r.Name] = map[string]struct{}{}
			}
			out[r.Name][sub.Name] = struct{}{}
		}
	}
	return out
}

const notARequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

// validateReference: REQUEST or REQUEST/ALTERNATIVE.
func (r requests) validateReference(name string, path *field.Path) field.ErrorList {
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		return field.ErrorList{field.Invalid(path, name, notARequest)}
	}
	var errs field.ErrorList
	for _, part := range parts {
		errs = append(errs, validateLabel(part, path)...)
	}
	subs, ok := r[parts[0]]
	if ok && len(parts) == 2 {
		_, ok = subs[parts[1]]
	}
	if !ok {
		errs = append(errs, field.Invalid(path, name, notARequest))
	}
	return errs
}

func (r requests) validateReferences(names []string, path *field.Path) field.ErrorList {
	return set(names, resourcev1.DeviceRequestsMaxSize, path, itself, r.validateReference)
}

func validateClaim(c *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	names := requestsOf(c)
	errs := set(c.Requests, resourcev1.DeviceRequestsMaxSize, path.Child("requests"),
		func(r resourcev1.DeviceRequest) string { return r.Name }, validateRequest)
	errs = append(errs, list(c.Constraints, resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"),
		func(c resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
			return append(names.validateReferences(c.Requests, path.Child("requests")), validateConstraint(&c, path)...)
		})...)
	return append(errs, list(c.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(c resourcev1.DeviceClaimConfiguration, path *field.Path) field.ErrorList {
			return append(names.validateReferences(c.Requests, path.Child("requests")), validateConfiguration(&c.DeviceConfiguration, false, path)...)
		})...)
}

func validateRequest(r resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := validateLabel(r.Name, path.Child("name"))
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		e := r.Exactly
		return append(errs, validateWish(e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations, path.Child("exactly"))...)
	}
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"),
		func(s resourcev1.DeviceSubRequest) string { return s.Name },
		func(s resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
			return append(validateLabel(s.Name, path.Child("name")),
				validateWish(s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations, path)...)
		})...)
}

// validateWish checks what a request and an alternative of one have in common.
func validateWish(class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64, tolerations []resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if class == "" {
		errs = append(errs, field.Required(path.Child("deviceClassName"), ""))
	} else {
		errs = append(errs, validateSubdomain(class, path.Child("deviceClassName"))...)
	}
	errs = append(errs, validateSelectors(selectors, false, path.Child("selectors"))...)
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			errs = append(errs, field.Invalid(path.Child("count"), count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if count <= 0 {
			errs = append(errs, field.Invalid(path.Child("count"), count, "must be greater than zero"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("allocationMode"), mode,
			[]resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount}))
	}
	return append(errs, list(tolerations, -1, path.Child("tolerations"), validateToleration)...)
}

func validateConstraint(c *resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
	switch {
	case c.MatchAttribute != nil:
		return validateFullyQualified(*c.MatchAttribute, path.Child("matchAttribute"))
	case c.DistinctAttribute != nil:
		return validateFullyQualified(*c.DistinctAttribute, path.Child("distinctAttribute"))
	}
	return field.ErrorList{field.Required(path, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`)}
}

// validateSelectors: stored ones may use what an older version of CEL allowed.
func validateSelectors(selectors []resourcev1.DeviceSelector, stored bool, path *field.Path) field.ErrorList {
	return list(selectors, resourcev1.DeviceSelectorsMaxSize, path, func(s resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
		if s.CEL == nil {
			return field.ErrorList{field.Required(path.Child("cel"), "")}
		}
		return validateExpression(s.CEL.Expression, stored, path.Child("cel", "expression"))
	})
}

func validateExpression(expression string, stored bool, path *field.Path) field.ErrorList {
	if len(expression) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	env := environment.NewExpressions
	if stored {
		env = environment.StoredExpressions
	}
	// The compiler is made with the first expression, and kept.
	result := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, dracel.Options{EnvType: &env})
	if result.Error != nil {
		return field.ErrorList{celError(expression, result.Error, path)}
	}
	if result.MaxCost > resourcev1.CELSelectorExpressionMaxCost {
		return field.ErrorList{field.Forbidden(path, "too complex, exceeds cost limit")}
	}
	return nil
}

func celError(expression string, err error, path *field.Path) *field.Error {
	var of *cel.Error
	if !errors.As(err, &of) {
		return field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
	}
	switch of.Type {
	case cel.ErrorTypeRequired:
		return field.Required(path, of.Detail)
	case cel.ErrorTypeInvalid:
		return field.Invalid(path, expression, of.Detail)
	case cel.ErrorTypeInternal:
		return field.InternalError(path, of)
	}
	return field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
}

func validateConfiguration(c *resourcev1.DeviceConfiguration, stored bool, path *field.Path) field.ErrorList {
	opaque := path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(opaque, "")}
	}
	errs := validateDriver(c.Opaque.Driver, opaque.Child("driver"))
	return append(errs, validateObject(c.Opaque.Parameters, stored, resourcev1.OpaqueParametersMaxLength, opaque.Child("parameters"))...)
}

// validateObject asks for a JSON object. Stored ones may be longer: the bound came
// later than they.
func validateObject(raw runtime.RawExtension, stored bool, most int, path *field.Path) field.ErrorList {
	if len(raw.Raw) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if !stored && len(raw.Raw) > most {
		return field.ErrorList{field.TooLong(path, "", most)}
	}
	var v any
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	switch v.(type) {
	case nil:
		return field.ErrorList{field.Required(path, "")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
}

// effects of taints, as they are listed in errors.
var effects = []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}

func validateEffect(e resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	for _, known := range effects {
		if e == known {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, e, effects)}
}

func validateToleration(t resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, validateLabelValue(t.Value, path.Child("value"))...)
	case "":
		errs = append(errs, field.Required(path.Child("operator"), ""))
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator,
			[]resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists}))
	}
	if t.Effect != "" {
		errs = append(errs, validateEffect(t.Effect, path.Child("effect"))...)
	}
	return errs
}

// validateClass checks a class; what did not change since old is stored.
func validateClass(o *resourcev1.DeviceClass, old *resourcev1.DeviceClassSpec) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, false, func(name string, _ bool) []string { return content.IsDNS1123Subdomain(name) })
	s := &o.Spec
	stored := old != nil && apiequality.Semantic.DeepEqual(s.Selectors, old.Selectors)
	errs = append(errs, validateSelectors(s.Selectors, stored, specPath.Child("selectors"))...)
	stored = old != nil && apiequality.Semantic.DeepEqual(s.Config, old.Config)
	errs = append(errs, list(s.Config, resourcev1.DeviceConfigMaxSize, specPath.Child("config"),
		func(c resourcev1.DeviceClassConfiguration, path *field.Path) field.ErrorList {
			return validateConfiguration(&c.DeviceConfiguration, stored, path)
		})...)
	if name := s.ExtendedResourceName; name != nil && !resources.IsExtendedResource(*name) {
		errs = append(errs, field.Invalid(specPath.Child("extendedResourceName"), *name, "must be a valid extended resource name"))
	}
	return errs
}
