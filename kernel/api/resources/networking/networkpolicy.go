package networking

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

func networkPolicyKind() resources.Kind {
	gvk := networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")
	doc := networkingv1.NetworkPolicySpec{}.SwaggerDoc()
	return resources.Kind{
		GVK: gvk, Resource: "networkpolicies", Singular: "networkpolicy", ShortNames: []string{"netpol"},
		New:     func() runtime.Object { return &networkingv1.NetworkPolicy{} },
		NewList: func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
		Strategy: resources.Rules[*networkingv1.NetworkPolicy]{
			GVK: gvk, Namespaced: true,
			PrepareCreate: func(o *networkingv1.NetworkPolicy) { o.Generation = 1 },
			PrepareUpdate: func(o, old *networkingv1.NetworkPolicy) {
				// An empty list is another spec than none, to upstream too.
				if !reflect.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate: func(o *networkingv1.NetworkPolicy) field.ErrorList {
				errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				return append(errs, validateNetworkPolicySpec(&o.Spec, nil)...)
			},
			ValidateUpdate: func(o, old *networkingv1.NetworkPolicy) field.ErrorList {
				errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				return append(errs, validateNetworkPolicySpec(&o.Spec, &old.Spec)...)
			},
			WarnCreate: networkPolicyWarnings,
			WarnUpdate: func(o, _ *networkingv1.NetworkPolicy) []string { return networkPolicyWarnings(o) },
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(), resources.StringColumn("Pod-Selector", doc["podSelector"]), resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*networkingv1.NetworkPolicy)
			return []any{o.Name, metav1.FormatLabelSelector(&o.Spec.PodSelector), resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func setNetworkPolicyDefaults(o *networkingv1.NetworkPolicy) {
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			if list[i].Protocol == nil {
				list[i].Protocol = ptr.To(corev1.ProtocolTCP)
			}
		}
	}
	for i := range o.Spec.Ingress {
		ports(o.Spec.Ingress[i].Ports)
	}
	for i := range o.Spec.Egress {
		ports(o.Spec.Egress[i].Ports)
	}
	if len(o.Spec.PolicyTypes) == 0 {
		o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(o.Spec.Egress) > 0 {
			o.Spec.PolicyTypes = append(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

// eachPeer calls f with every peer of a policy and its place, ingress first.
func eachPeer(s *networkingv1.NetworkPolicySpec, f func(*networkingv1.NetworkPolicyPeer, *field.Path)) {
	for i := range s.Ingress {
		for j := range s.Ingress[i].From {
			f(&s.Ingress[i].From[j], specPath.Child("ingress").Index(i).Child("from").Index(j))
		}
	}
	for i := range s.Egress {
		for j := range s.Egress[i].To {
			f(&s.Egress[i].To[j], specPath.Child("egress").Index(i).Child("to").Index(j))
		}
	}
}

func networkPolicyWarnings(o *networkingv1.NetworkPolicy) []string {
	var out []string
	eachPeer(&o.Spec, func(p *networkingv1.NetworkPolicyPeer, path *field.Path) {
		if b := p.IPBlock; b != nil {
			block := path.Child("ipBlock")
			out = append(out, validation.GetWarningsForCIDR(block.Child("cidr"), b.CIDR)...)
			for k, except := range b.Except {
				out = append(out, validation.GetWarningsForCIDR(block.Child("except").Index(k), except)...)
			}
		}
	})
	return out
}

// storedPeers is what an update leaves alone, since the stored policy has it.
type storedPeers struct {
	labels metav1validation.LabelSelectorValidationOptions
	ranges []string
}

func storedPeersOf(old *networkingv1.NetworkPolicySpec) storedPeers {
	var out storedPeers
	if old == nil {
		return out
	}
	out.labels.AllowInvalidLabelValueInSelector = len(metav1validation.ValidateLabelSelector(&old.PodSelector, out.labels, nil)) > 0
	eachPeer(old, func(p *networkingv1.NetworkPolicyPeer, _ *field.Path) {
		if b := p.IPBlock; b != nil {
			out.ranges = append(append(out.ranges, b.CIDR), b.Except...)
		}
	})
	return out
}

func validateNetworkPolicySpec(s, old *networkingv1.NetworkPolicySpec) field.ErrorList {
	stored := storedPeersOf(old)
	errs := metav1validation.ValidateLabelSelector(&s.PodSelector, stored.labels, specPath.Child("podSelector"))
	ports := func(list []networkingv1.NetworkPolicyPort, path *field.Path) {
		for i := range list {
			errs = append(errs, validatePolicyPort(&list[i], path.Child("ports").Index(i))...)
		}
	}
	for i := range s.Ingress {
		ports(s.Ingress[i].Ports, specPath.Child("ingress").Index(i))
	}
	for i := range s.Egress {
		ports(s.Egress[i].Ports, specPath.Child("egress").Index(i))
	}
	eachPeer(s, func(p *networkingv1.NetworkPolicyPeer, path *field.Path) {
		errs = append(errs, validatePeer(p, stored, path)...)
	})
	types := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	path := specPath.Child("policyTypes")
	if len(s.PolicyTypes) > len(types) {
		return append(errs, field.Invalid(path, &s.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range s.PolicyTypes {
		if !slices.Contains(types, t) {
			errs = append(errs, field.NotSupported(path.Index(i), t, types))
		}
	}
	return errs
}

func validatePolicyPort(p *networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	protocols := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	if p.Protocol != nil && !slices.Contains(protocols, *p.Protocol) {
		errs = append(errs, field.NotSupported(path.Child("protocol"), *p.Protocol, protocols))
	}
	port, end := path.Child("port"), path.Child("endPort")
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
		}
	case p.Port.Type == intstr.Int:
		errs = append(errs, invalid(port, p.Port.IntVal, validation.IsValidPortNum(int(p.Port.IntVal)))...)
		if p.EndPort != nil {
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(end, p.Port.IntVal, "must be greater than or equal to `port`"))
			}
			errs = append(errs, invalid(end, *p.EndPort, validation.IsValidPortNum(int(*p.EndPort)))...)
		}
	default:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
		}
		errs = append(errs, invalid(port, p.Port.StrVal, validation.IsValidPortName(p.Port.StrVal))...)
	}
	return errs
}

func validatePeer(p *networkingv1.NetworkPolicyPeer, stored storedPeers, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.PodSelector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(p.PodSelector, stored.labels, path.Child("podSelector"))...)
	}
	if p.NamespaceSelector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(p.NamespaceSelector, stored.labels, path.Child("namespaceSelector"))...)
	}
	selected := p.PodSelector != nil || p.NamespaceSelector != nil
	if p.IPBlock != nil {
		errs = append(errs, validateIPBlock(p.IPBlock, stored.ranges, path.Child("ipBlock"))...)
		if selected {
			errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
		}
	} else if !selected {
		errs = append(errs, field.Required(path, "must specify a peer"))
	}
	return errs
}

// validateIPBlock leaves ranges alone that the stored policy has anywhere: rules
// and peers have no names, so a range cannot be told from one that was moved.
func validateIPBlock(b *networkingv1.IPBlock, had []string, path *field.Path) field.ErrorList {
	cidr := path.Child("cidr")
	if b.CIDR == "" {
		return field.ErrorList{field.Required(cidr, "")}
	}
	errs := validation.IsValidCIDRForLegacyField(cidr, b.CIDR, strictAddresses, had)
	_, block, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs // which tell of it, or it was stored
	}
	for i, e := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, e, strictAddresses, had)...)
		_, except, err := netutils.ParseCIDRSloppy(e)
		if err != nil {
			continue
		}
		size, _ := block.Mask.Size()
		part, _ := except.Mask.Size()
		if !block.Contains(except.IP) || size >= part {
			errs = append(errs, field.Invalid(at, e, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
