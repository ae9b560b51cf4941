package resources

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateAffinity(a *corev1.Affinity, allow PodAllowances, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		p := path.Child("nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			errs = append(errs, validateNodeSelector(r, allow.nodeValues, p.Child(required))...)
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t, at := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], p.Child(preferred).Index(i)
			if t.Weight <= 0 || t.Weight > 100 {
				errs = append(errs, field.Invalid(at.Child("weight"), t.Weight, "must be in the range 1-100"))
			}
			errs = append(errs, validateNodeTerm(&t.Preference, false, at.Child("preference"))...)
		}
	}
	pods := func(terms []corev1.PodAffinityTerm, weighted []corev1.WeightedPodAffinityTerm, p *field.Path) {
		for i := range terms {
			errs = append(errs, validatePodTerm(&terms[i], allow.SelectorValues, p.Child(required).Index(i))...)
		}
		for i := range weighted {
			t, at := &weighted[i], p.Child(preferred).Index(i)
			if t.Weight <= 0 || t.Weight > 100 {
				errs = append(errs, field.Invalid(at.Child("weight"), t.Weight, "must be in the range 1-100"))
			}
			errs = append(errs, validatePodTerm(&t.PodAffinityTerm, allow.SelectorValues, at.Child("podAffinityTerm"))...)
		}
	}
	if x := a.PodAffinity; x != nil {
		pods(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if x := a.PodAntiAffinity; x != nil {
		pods(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
	return errs
}

// validateNodeSelector checks a selector of nodes; anyValue leaves the values of
// labels unchecked.
func validateNodeSelector(s *corev1.NodeSelector, anyValue bool, path *field.Path) field.ErrorList {
	terms := path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, validateNodeTerm(&s.NodeSelectorTerms[i], anyValue, terms.Index(i))...)
	}
	return errs
}

func validateNodeTerm(t *corev1.NodeSelectorTerm, anyValue bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range t.MatchExpressions {
		p := path.Child("matchExpressions").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(p.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Forbidden(p.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				errs = append(errs, field.Required(p.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"))
			}
		default:
			errs = append(errs, field.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, p.Child("key"))...)
		if anyValue {
			continue
		}
		for j, v := range r.Values {
			errs = append(errs, invalidAll(p.Child("values").Index(j), v, validation.IsValidLabelValue(v))...)
		}
	}
	for i, r := range t.MatchFields {
		p := path.Child("matchFields").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) != 1 {
				errs = append(errs, field.Required(p.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
			}
		default:
			errs = append(errs, field.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		if r.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(p.Child("key"), r.Key, "not a valid field selector key"))
			continue
		}
		for j, v := range r.Values {
			errs = append(errs, invalidAll(p.Child("values").Index(j), v, apivalidation.NameIsDNSSubdomain(v, false))...)
		}
	}
	return errs
}

func validatePodTerm(t *corev1.PodAffinityTerm, anyValue bool, path *field.Path) field.ErrorList {
	opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}
	errs := metav1validation.ValidateLabelSelector(t.LabelSelector, opts, path.Child("labelSelector"))
	errs = append(errs, metav1validation.ValidateLabelSelector(t.NamespaceSelector, opts, path.Child("namespaceSelector"))...)
	for _, n := range t.Namespaces {
		errs = append(errs, invalidAll(path.Child("namespace"), n, apivalidation.ValidateNamespaceName(n, false))...)
	}
	for _, l := range []struct {
		name string
		keys []string
	}{{"matchLabelKeys", t.MatchLabelKeys}, {"mismatchLabelKeys", t.MismatchLabelKeys}} {
		if len(l.keys) > 0 && t.LabelSelector == nil {
			errs = append(errs, field.Forbidden(path.Child(l.name), "must not be specified when labelSelector is not set"))
		}
		for i, k := range l.keys {
			errs = append(errs, metav1validation.ValidateLabelName(k, path.Child(l.name).Index(i))...)
		}
	}
	for i, k := range t.MatchLabelKeys {
		if slices.Contains(t.MismatchLabelKeys, k) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), k, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

func validateSpread(list []corev1.TopologySpreadConstraint, allow PodAllowances, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		c, p := &list[i], path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, notPositive))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(p.Child("topologyKey"), "can not be empty"))
		} else {
			errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, p.Child("topologyKey"))...)
		}
		errs = append(errs, supported(p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		for _, o := range list[i+1:] {
			if o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable {
				errs = append(errs, field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
				break
			}
		}
		if m := c.MinDomains; m != nil {
			if *m <= 0 {
				errs = append(errs, field.Invalid(p.Child("minDomains"), *m, notPositive))
			}
			if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
				errs = append(errs, field.Invalid(p.Child("minDomains"), *m, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
			}
		}
		for _, n := range []struct {
			name  string
			value *corev1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
			if n.value != nil {
				errs = append(errs, supported(p.Child(n.name), *n.value, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
			}
		}
		errs = append(errs, validateSpreadKeys(c, allow.spreadKeys, p)...)
		if !allow.spreadSelectors {
			errs = append(errs, metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, p.Child("labelSelector"))...)
		}
	}
	return errs
}

// validateSpreadKeys: a key of matchLabelKeys becomes an expression of the
// selector when a pod is created, and may be there once only. old tells them
// apart as it was done before 1.34: a key that the selector names at all.
func validateSpreadKeys(c *corev1.TopologySpreadConstraint, old bool, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	keys := p.Child("matchLabelKeys")
	if len(c.MatchLabelKeys) > 0 && c.LabelSelector == nil {
		errs = append(errs, field.Forbidden(keys, "must not be specified when labelSelector is not set"))
		if !old {
			return errs
		}
	}
	for i, k := range c.MatchLabelKeys {
		errs = append(errs, metav1validation.ValidateLabelName(k, keys.Index(i))...)
	}
	if c.LabelSelector == nil {
		return errs
	}
	selected := map[string]bool{}
	for k := range c.LabelSelector.MatchLabels {
		selected[k] = true
	}
	const twice = "exists in both matchLabelKeys and labelSelector"
	for _, e := range c.LabelSelector.MatchExpressions {
		if i := lastIndex(c.MatchLabelKeys, e.Key); !old && i >= 0 && selected[e.Key] {
			errs = append(errs, field.Invalid(p.Index(i), e.Key, twice))
		}
		selected[e.Key] = true
	}
	for i, k := range c.MatchLabelKeys {
		if old && selected[k] {
			errs = append(errs, field.Invalid(keys.Index(i), k, twice))
		}
	}
	return errs
}

func lastIndex(list []string, s string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == s {
			return i
		}
	}
	return -1
}
