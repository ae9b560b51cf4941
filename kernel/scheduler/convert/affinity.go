package convert

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// convertPlacement adds what a pod says of other pods.
func convertPlacement(out *contractv1.Pod, pod *v1.Pod) {
	if affinity := pod.Spec.Affinity; affinity != nil {
		if a := affinity.PodAffinity; a != nil {
			out.PodAffinity = convertPodAffinity(pod.Namespace, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a := affinity.PodAntiAffinity; a != nil {
			out.PodAntiAffinity = convertPodAffinity(pod.Namespace, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		out.TopologySpread = append(out.TopologySpread, convertSpread(&pod.Spec.TopologySpreadConstraints[i]))
	}
}

func convertPodAffinity(namespace string, required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) *contractv1.PodAffinity {
	if len(required) == 0 && len(preferred) == 0 {
		return nil
	}
	out := &contractv1.PodAffinity{}
	for i := range required {
		out.Required = append(out.Required, convertPodAffinityTerm(namespace, &required[i], 0))
	}
	for i := range preferred {
		out.Preferred = append(out.Preferred, convertPodAffinityTerm(namespace, &preferred[i].PodAffinityTerm, preferred[i].Weight))
	}
	return out
}

func convertPodAffinityTerm(namespace string, term *v1.PodAffinityTerm, weight int32) *contractv1.PodAffinityTerm {
	out := &contractv1.PodAffinityTerm{Namespaces: term.Namespaces, TopologyKey: term.TopologyKey, Weight: weight}
	out.HasSelector, out.Selector = convertSelector(term.LabelSelector)
	out.HasNamespaceSelector, out.NamespaceSelector = convertSelector(term.NamespaceSelector)
	if len(out.Namespaces) == 0 && !out.HasNamespaceSelector {
		out.Namespaces = []string{namespace}
	}
	return out
}

func convertSpread(c *v1.TopologySpreadConstraint) *contractv1.TopologySpreadConstraint {
	out := &contractv1.TopologySpreadConstraint{
		MaxSkew: c.MaxSkew, TopologyKey: c.TopologyKey, WhenUnsatisfiable: string(c.WhenUnsatisfiable),
	}
	out.HasSelector, out.Selector = convertSelector(c.LabelSelector)
	if c.MinDomains != nil {
		out.MinDomains = *c.MinDomains
	}
	if c.NodeAffinityPolicy != nil {
		out.NodeAffinityPolicy = string(*c.NodeAffinityPolicy)
	}
	if c.NodeTaintsPolicy != nil {
		out.NodeTaintsPolicy = string(*c.NodeTaintsPolicy)
	}
	for _, key := range c.MatchLabelKeys {
		if !selectsOn(c.LabelSelector, key) {
			out.MatchLabelKeys = append(out.MatchLabelKeys, key)
		}
	}
	return out
}

// selectsOn reports whether the API server made a label key part of the selector
// (KEP-3243), which it does by an In expression.
func selectsOn(selector *metav1.LabelSelector, key string) bool {
	if selector == nil {
		return false
	}
	for _, r := range selector.MatchExpressions {
		if r.Key == key && r.Operator == metav1.LabelSelectorOpIn {
			return true
		}
	}
	return false
}

// convertSelector tells an empty selector, which selects everything, from none.
func convertSelector(selector *metav1.LabelSelector) (has bool, out *contractv1.Selector) {
	if selector == nil {
		return false, nil
	}
	out = &contractv1.Selector{MatchLabels: selector.MatchLabels}
	for _, r := range selector.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, &contractv1.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
	return true, out
}
