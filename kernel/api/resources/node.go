package resources

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

func nodeKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("Node")
	b := base{gvk: gvk}
	return Kind{
		GVK: gvk, Resource: "nodes", Singular: "node", ShortNames: []string{"no"},
		New:     func() runtime.Object { return &corev1.Node{} },
		NewList: func() runtime.Object { return &corev1.NodeList{} },
		Strategy: &rules[*corev1.Node]{
			base: b.resetting([]any{"status"}),
			prepareCreate: func(n *corev1.Node) {
				n.Spec.ConfigSource, n.Status.Config = nil, nil
			},
			prepareUpdate: func(n, old *corev1.Node) {
				n.Status = old.Status
				if old.Spec.ConfigSource == nil {
					n.Spec.ConfigSource = nil
				}
			},
			validate: validateNode,
			validateUpdate: func(n, old *corev1.Node) field.ErrorList {
				return append(validateNode(n), validateNodeUpdate(n, old)...)
			},
			warnCreate: nodeWarnings,
			warnUpdate: func(n, _ *corev1.Node) []string { return nodeWarnings(n) },
		},
		Status: &rules[*corev1.Node]{
			base: b.resetting([]any{"spec"}),
			prepareUpdate: func(n, old *corev1.Node) {
				n.Spec = old.Spec
				if old.Status.Config == nil {
					n.Status.Config = nil
				}
			},
			validateUpdate: validateNodeUpdate,
		},
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(obj.(*corev1.Node).Spec.Unschedulable)}
		},
		FieldNames: []string{"spec.unschedulable"},
		Columns:    nodeColumns(), Row: row(nodeCells),
	}
}

func setNodeDefaults(n *corev1.Node) {
	// podCIDR is the first of podCIDRs for clients that know only one.
	switch {
	case n.Spec.PodCIDR == "" && len(n.Spec.PodCIDRs) > 0:
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	case n.Spec.PodCIDR != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != n.Spec.PodCIDR):
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
	}
	roundUp(n.Status.Capacity)
	roundUp(n.Status.Allocatable)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

func validateNode(n *corev1.Node) field.ErrorList {
	errs := validateMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateTaints(n.Spec.Taints, metadataPath.Child("taints"))...)
	errs = append(errs, validateNodeResources(n)...)
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		errs = append(errs, field.Invalid(metadataPath.Child("nodeSwapStatus", "capacity"), *swap.Capacity, notPositive))
	}
	return append(errs, validatePodCIDRs(n, nil)...)
}

// validatePodCIDRs checks the ranges; those that the node had stay as they are.
func validatePodCIDRs(n *corev1.Node, had []string) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(path.Index(i), cidr, strictIPs, had)...)
	}
	if len(n.Spec.PodCIDRs) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs)
		if err != nil {
			errs = append(errs, field.InternalError(path, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
		}
		if !dual || len(n.Spec.PodCIDRs) > 2 {
			errs = append(errs, field.Invalid(path, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	errs := validateMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateNodeResources(n)...)
	errs = append(errs, validatePodCIDRs(n, old.Spec.PodCIDRs)...)
	errs = append(errs, validateDeclaredFeatures(n.Status.DeclaredFeatures)...)
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			errs = append(errs, field.Duplicate(statusPath.Child("addresses").Index(i), a))
		}
		seen[a] = true
	}
	if was := old.Spec.PodCIDRs; len(was) > 0 {
		const why = `node updates may not change podCIDR except from "" to valid`
		path := specPath.Child("podCIDRs")
		if len(was) != len(n.Spec.PodCIDRs) {
			errs = append(errs, field.Forbidden(path, why))
		} else {
			for i := range was {
				if was[i] != n.Spec.PodCIDRs[i] {
					errs = append(errs, field.Forbidden(path, why))
				}
			}
		}
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(specPath.Child("providerID"), `node updates may not change providerID except from "" to valid`))
	}
	errs = append(errs, validateTaints(n.Spec.Taints, metadataPath.Child("taints"))...)
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(specPath.Child("externalID"), "may not be updated"))
	}
	return errs
}

var declaredFeature = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

func validateDeclaredFeatures(names []string) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		p := statusPath.Child("declaredFeatures").Index(i)
		if !declaredFeature.MatchString(name) {
			errs = append(errs, field.Invalid(p, name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
		if i > 0 && names[i-1] == name {
			errs = append(errs, field.Duplicate(p, name))
		} else if i > 0 && names[i-1] > name {
			errs = append(errs, field.Invalid(p, name, "list must be sorted alphabetically"))
		}
	}
	return errs
}

func validateNodeResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for name, q := range l.list {
			errs = append(errs, checkQuantity(name, q, statusPath.Child(l.name, string(name)))...)
		}
	}
	return errs
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.Taint]bool{}
	for i, t := range taints {
		p := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, p.Child("key"))...)
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) != 0 {
			errs = append(errs, field.Invalid(p.Child("value"), t.Value, strings.Join(msgs, ";")))
		}
		errs = append(errs, validateTaintEffect(t.Effect, p.Child("effect"))...)
		key := corev1.Taint{Key: t.Key, Effect: t.Effect}
		if seen[key] {
			dup := field.Duplicate(p, t)
			dup.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, dup)
		}
		seen[key] = true
	}
	return errs
}

func validateTaintEffect(e corev1.TaintEffect, path *field.Path) field.ErrorList {
	if e == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	switch e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, e, []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	})}
}

func nodeWarnings(n *corev1.Node) []string {
	var out []string
	if n.Spec.ConfigSource != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		out = append(out, validation.GetWarningsForCIDR(specPath.Child("podCIDRs").Index(i), cidr)...)
	}
	return out
}
