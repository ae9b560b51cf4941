package review

import (
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// question turns the attributes of a review into those of a request; exactly
// one of resource and path is not nil.
func question(who user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		return authorizer.AttributesRecord{User: who, Verb: path.Verb, Path: path.Path}
	}
	out := authorizer.AttributesRecord{
		User: who, Verb: resource.Verb, Namespace: resource.Namespace,
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource,
		Subresource: resource.Subresource, Name: resource.Name, ResourceRequest: true,
	}
	if out.APIVersion == "" {
		out.APIVersion = "*"
	}
	if in := resource.LabelSelector; in != nil {
		out.LabelSelectorRequirements, out.LabelSelectorParsingErr = labelRequirements(in)
	}
	if in := resource.FieldSelector; in != nil {
		out.FieldSelectorRequirements, out.FieldSelectorParsingErr = fieldRequirements(in)
	}
	return out
}

// What cannot be parsed is left out: requirements only narrow a request, so
// that the question becomes broader and never narrower than it was.
func labelRequirements(in *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if len(in.Requirements) == 0 {
		selector, err := labels.Parse(in.RawSelector)
		if err != nil {
			return nil, err
		}
		requirements, _ := selector.Requirements()
		return requirements, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var (
		out  labels.Requirements
		errs []error
	)
	for _, r := range in.Requirements {
		operator, ok := operators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, *requirement)
	}
	return out, errors.Join(errs...)
}

func fieldRequirements(in *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if len(in.Requirements) == 0 {
		selector, err := fields.ParseSelector(in.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals,
	}
	var (
		out  fields.Requirements
		errs []error
	)
	for _, r := range in.Requirements {
		operator, ok := operators[r.Operator]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%q is not a valid field selector operator", r.Operator))
		case len(r.Values) != 1:
			errs = append(errs, fmt.Errorf("field selector %q must have one value", r.Key))
		default:
			out = append(out, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
		}
	}
	return out, errors.Join(errs...)
}

func evaluationError(err error, question authorizer.AttributesRecord) string {
	var out []string
	if err != nil {
		out = append(out, err.Error())
	}
	note := func(path string, left int, err error) {
		switch {
		case err == nil:
		case left > 0:
			out = append(out, path+" partially ignored due to parse error")
		default:
			out = append(out, path+" ignored due to parse error")
		}
	}
	byField, err := question.GetFieldSelector()
	note("spec.resourceAttributes.fieldSelector", len(byField), err)
	byLabel, err := question.GetLabelSelector()
	note("spec.resourceAttributes.labelSelector", len(byLabel), err)
	return strings.Join(out, "; ")
}

func validateSpec(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(spec.ResourceAttributes)...)
}

func validateAttributes(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	spec := field.NewPath("spec")
	switch {
	case resource != nil && path != nil:
		return field.ErrorList{field.Invalid(spec.Child("nonResourceAttributes"), path, "cannot be specified in combination with resourceAttributes")}
	case resource == nil && path == nil:
		return field.ErrorList{field.Invalid(spec.Child("resourceAttributes"), path, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

func validateSelectors(resource *authorizationv1.ResourceAttributes) field.ErrorList {
	if resource == nil {
		return nil
	}
	var errs field.ErrorList
	base := field.NewPath("spec.resourceAttributes")
	both := func(path *field.Path, raw string, requirements int) {
		if raw != "" && requirements > 0 {
			errs = append(errs, field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements"))
		}
		if raw == "" && requirements == 0 {
			errs = append(errs, field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path)))
		}
	}
	if in := resource.FieldSelector; in != nil {
		path := base.Child("fieldSelector")
		both(path, in.RawSelector, len(in.Requirements))
		options := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range in.Requirements {
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r, options, path.Child("requirements").Index(i))...)
		}
	}
	if in := resource.LabelSelector; in != nil {
		path := base.Child("labelSelector")
		both(path, in.RawSelector, len(in.Requirements))
		options := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range in.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r, options, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func validateEmptyMeta(meta metav1.ObjectMeta, message string) field.ErrorList {
	shown := meta
	meta.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, meta) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), shown, message)}
}
