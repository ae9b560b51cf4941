package admissionregistration

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	validationActions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny, admissionv1.Warn}
	notFoundActions   = []admissionv1.ParameterNotFoundActionType{admissionv1.DenyAction, admissionv1.AllowAction}
)

func validateValidatingBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := validation.ValidateObjectMeta(&o.ObjectMeta, false, validation.NameIsDNSSubdomain, metadataPath)
	errs = append(errs, validatePolicyName(o.Spec.PolicyName)...)
	errs = append(errs, validateParamRef(o.Spec.ParamRef, specPath.Child("paramRef"))...)
	errs = append(errs, validateMatch(o.Spec.MatchResources, specPath.Child("matchResources"))...)
	return append(errs, validateActions(o.Spec.ValidationActions, specPath.Child("validationActions"))...)
}

func validateMutatingBinding(o *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := validation.ValidateObjectMeta(&o.ObjectMeta, false, validation.NameIsDNSSubdomain, metadataPath)
	errs = append(errs, validatePolicyName(o.Spec.PolicyName)...)
	errs = append(errs, validateParamRef(o.Spec.ParamRef, specPath.Child("paramRef"))...)
	errs = append(errs, validateMatch(o.Spec.MatchResources, specPath.Child("matchResources"))...)
	return append(errs, validateMutatingRules(o.Spec.MatchResources, specPath.Child("matchResources"))...)
}

func validatePolicyName(name string) field.ErrorList {
	path := specPath.Child("policyName")
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, words := range validation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, words))
	}
	return errs
}

// validateParamRef wants parameters to be named or selected, not both.
func validateParamRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		for _, words := range content.IsPathSegmentName(r.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), r.Name, words))
		}
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), exclusive))
		}
	}
	if r.Selector != nil {
		errs = append(errs, validateSelector(r.Selector, path.Child("selector"), false)...)
		if r.Name != "" {
			errs = append(errs, field.Forbidden(path.Child("selector"), exclusive))
		}
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	at := path.Child("parameterNotFoundAction")
	switch a := r.ParameterNotFoundAction; {
	case a == nil || *a == "":
		errs = append(errs, field.Required(at, ""))
	case !slices.Contains(notFoundActions, *a):
		errs = append(errs, field.NotSupported(at, *a, notFoundActions))
	}
	return errs
}

func validateActions(actions []admissionv1.ValidationAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range actions {
		errs = append(errs, oneOf(path.Index(i), a, validationActions)...)
		if slices.Contains(actions[:i], a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		errs = append(errs, field.Required(path, "at least one validation action is required"))
	}
	return errs
}
