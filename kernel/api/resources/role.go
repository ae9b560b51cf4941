package resources

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func roleKind() Kind {
	gvk := rbacv1.SchemeGroupVersion.WithKind("Role")
	validate := func(o *rbacv1.Role) field.ErrorList {
		errs := validateMeta(&o.ObjectMeta, true, rbacName)
		return append(errs, validatePolicyRules(o.Rules, true)...)
	}
	return Kind{
		GVK: gvk, Resource: "roles", Singular: "role",
		New:     func() runtime.Object { return &rbacv1.Role{} },
		NewList: func() runtime.Object { return &rbacv1.RoleList{} },
		Strategy: &rules[*rbacv1.Role]{
			base:     base{gvk: gvk, namespaced: true, createOnUpdate: true},
			validate: validate,
			validateUpdate: func(o, old *rbacv1.Role) field.ErrorList {
				return append(validate(o), validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
			},
		},
		Columns: createdColumns(),
		Row:     func(obj runtime.Object) ([]any, error) { return createdRow(obj.(*rbacv1.Role)), nil },
	}
}

func clusterRoleKind() Kind {
	gvk := rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	return Kind{
		GVK: gvk, Resource: "clusterroles", Singular: "clusterrole",
		New:     func() runtime.Object { return &rbacv1.ClusterRole{} },
		NewList: func() runtime.Object { return &rbacv1.ClusterRoleList{} },
		Strategy: &rules[*rbacv1.ClusterRole]{
			base:     base{gvk: gvk, createOnUpdate: true},
			validate: func(o *rbacv1.ClusterRole) field.ErrorList { return validateClusterRole(o, false) },
			validateUpdate: func(o, old *rbacv1.ClusterRole) field.ErrorList {
				errs := validateClusterRole(o, hasInvalidAggregation(old))
				return append(errs, validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
			},
		},
		Columns: createdColumns(),
		Row:     func(obj runtime.Object) ([]any, error) { return createdRow(obj.(*rbacv1.ClusterRole)), nil },
	}
}

// rbacName admits what can stand in a path: names of roles may hold colons.
func rbacName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

func validatePolicyRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		errs = append(errs, validatePolicyRule(rule, namespaced, field.NewPath("rules").Index(i))...)
	}
	return errs
}

func validatePolicyRule(r rbacv1.PolicyRule, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(r.NonResourceURLs) > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(r.APIGroups) > 0 || len(r.Resources) > 0 || len(r.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func validateClusterRole(o *rbacv1.ClusterRole, allowInvalidSelector bool) field.ErrorList {
	errs := validateMeta(&o.ObjectMeta, false, rbacName)
	errs = append(errs, validatePolicyRules(o.Rules, false)...)
	if o.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(o.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range o.AggregationRule.ClusterRoleSelectors {
		selector := &o.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, metav1validation.ValidateLabelSelector(selector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: allowInvalidSelector}, path.Index(i))...)
		if s, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), s, "invalid label selector."))
		}
	}
	return errs
}

// hasInvalidAggregation: what was stored before it was forbidden may stay.
func hasInvalidAggregation(o *rbacv1.ClusterRole) bool {
	if o.AggregationRule == nil {
		return false
	}
	for i := range o.AggregationRule.ClusterRoleSelectors {
		if len(metav1validation.ValidateLabelSelector(&o.AggregationRule.ClusterRoleSelectors[i], metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
			return true
		}
	}
	return false
}
