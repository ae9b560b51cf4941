package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Values that fields may have, in the order in which errors list them.
var (
	failurePolicies      = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies        = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	reinvocationPolicies = []admissionv1.ReinvocationPolicyType{admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}
	scopes               = []admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}
	operations           = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update}
	// What is deleted cannot be changed.
	mutatingOperations = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update}
)

// oneOf refuses a value that is not in the list.
func oneOf[T ~string](path *field.Path, value T, allowed []T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// optionalOneOf takes no value too, requiredOneOf does not.
func optionalOneOf[T ~string](path *field.Path, value *T, allowed []T) field.ErrorList {
	if value == nil {
		return nil
	}
	return oneOf(path, *value, allowed)
}

func requiredOneOf[T ~string](path *field.Path, value *T, allowed []T) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return oneOf(path, *value, allowed)
}

// validateRule says what is wrong with the operations and resources that are asked for.
func validateRule(rule *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("operations")
	if len(rule.Operations) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if len(rule.Operations) > 1 && slices.Contains(rule.Operations, admissionv1.OperationAll) {
		errs = append(errs, field.Invalid(at, rule.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, o := range rule.Operations {
		errs = append(errs, oneOf(at.Index(i), o, operations)...)
	}
	errs = append(errs, validateNames(rule.APIGroups, path.Child("apiGroups"), "API groups")...)
	errs = append(errs, validateNames(rule.APIVersions, path.Child("apiVersions"), "API versions")...)
	for i, v := range rule.APIVersions { // the group of core is empty, no version is
		if v == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(rule.Resources, path.Child("resources"))...)
	return append(errs, optionalOneOf(path.Child("scope"), rule.Scope, scopes)...)
}

// validateNames wants some, and no others beside "*".
func validateNames(names []string, path *field.Path, what string) field.ErrorList {
	var errs field.ErrorList
	if len(names) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if len(names) > 1 && slices.Contains(names, "*") {
		errs = append(errs, field.Invalid(path, names, "if '*' is present, must not specify other "+what))
	}
	return errs
}

// validateResources refuses what another entry before it covers. Entries are
// "resource", "resource/subresource", and either part may be "*".
func validateResources(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(names) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	allOf, everywhere := map[string]bool{}, map[string]bool{} // "x/*" and "*/x" seen
	plain := false                                            // the last entry without a subresource is not "*"
	for i, name := range names {
		if name == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		resource, sub, ok := strings.Cut(name, "/")
		if !ok {
			plain = name != "*"
			continue
		}
		if allOf[resource] {
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, name)))
		}
		if everywhere[sub] {
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, name)))
		}
		if sub == "*" {
			allOf[resource] = true
		}
		if resource == "*" {
			everywhere[sub] = true
		}
	}
	if len(names) > 1 && slices.Contains(names, "*/*") {
		errs = append(errs, field.Invalid(path, names, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(names, "*") {
		errs = append(errs, field.Invalid(path, names, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

// validateSelector checks a selector; lenient lets values of labels be what no label can be.
func validateSelector(s *metav1.LabelSelector, path *field.Path, lenient bool) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lenient}, path)
}

// validateMatch checks which requests a policy or binding is about; nil: all.
func validateMatch(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := requiredOneOf(path.Child("matchPolicy"), m.MatchPolicy, matchPolicies)
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", m.NamespaceSelector}, {"objectSelector", m.ObjectSelector}} {
		if s.selector == nil {
			errs = append(errs, field.Required(path.Child(s.name), ""))
		} else {
			errs = append(errs, validateSelector(s.selector, path.Child(s.name), false)...)
		}
	}
	for _, r := range []struct {
		name  string
		rules []admissionv1.NamedRuleWithOperations
	}{{"resourceRules", m.ResourceRules}, {"excludeResourceRules", m.ExcludeResourceRules}} {
		for i := range r.rules {
			errs = append(errs, validateNamedRule(&r.rules[i], path.Child(r.name).Index(i))...)
		}
	}
	return errs
}

func validateNamedRule(rule *admissionv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range rule.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		for _, words := range content.IsPathSegmentName(name) {
			errs = append(errs, field.Invalid(at, name, words))
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
	}
	return append(errs, validateRule(&rule.RuleWithOperations, path)...)
}

// validateMutatingRules refuses operations that have nothing to change.
func validateMutatingRules(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	for _, rule := range m.ResourceRules {
		for _, o := range rule.Operations {
			errs = append(errs, oneOf(path.Child("resourceRules", "operations"), o, mutatingOperations)...)
		}
	}
	return errs
}
