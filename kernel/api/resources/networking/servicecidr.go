package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"pintle.dev/pintle/kernel/api/resources"
)

// cidrsDoc is the column's description, which k8s.io/api says otherwise since 0.37.
const cidrsDoc = `CIDRs defines the IP blocks in CIDR notation (e.g. "192.168.0.0/24" or "2001:db8::/64") from which to assign service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This field is immutable.`

var cidrsPath = specPath.Child("cidrs")

func serviceCIDRKind() resources.Kind {
	gvk := networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR")
	return resources.Kind{
		GVK: gvk, Resource: "servicecidrs", Singular: "servicecidr",
		New:     func() runtime.Object { return &networkingv1.ServiceCIDR{} },
		NewList: func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		Strategy: resources.Rules[*networkingv1.ServiceCIDR]{
			GVK: gvk, Reset: [][]any{{"status"}},
			PrepareCreate:  func(o *networkingv1.ServiceCIDR) { o.Status = networkingv1.ServiceCIDRStatus{} },
			PrepareUpdate:  func(o, old *networkingv1.ServiceCIDR) { o.Status = old.Status },
			Validate:       validateServiceCIDR,
			ValidateUpdate: validateServiceCIDRUpdate,
		}.Strategy(),
		Status: resources.Rules[*networkingv1.ServiceCIDR]{
			GVK: gvk, Reset: [][]any{{"metadata"}, {"spec"}},
			PrepareUpdate: func(o, old *networkingv1.ServiceCIDR) {
				o.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&o.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: func(o, old *networkingv1.ServiceCIDR) field.ErrorList {
				return resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
			},
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("CIDRs", cidrsDoc),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*networkingv1.ServiceCIDR)
			return []any{o.Name, strings.Join(o.Spec.CIDRs, ","), resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func validateServiceCIDR(o *networkingv1.ServiceCIDR) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	return append(errs, validateServiceRanges(&o.Spec)...)
}

// validateServiceRanges: one range, or one of each family.
func validateServiceRanges(s *networkingv1.ServiceCIDRSpec) field.ErrorList {
	switch n := len(s.CIDRs); {
	case n == 0:
		return field.ErrorList{field.Required(cidrsPath, "at least one CIDR required")}
	case n > 2:
		return field.ErrorList{field.Invalid(cidrsPath, s, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range s.CIDRs {
		errs = append(errs, validation.IsValidCIDR(cidrsPath.Index(i), cidr)...)
	}
	if len(s.CIDRs) == 2 {
		family := netutils.IPFamilyOfCIDRString(s.CIDRs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(s.CIDRs[1]) {
			errs = append(errs, field.Invalid(cidrsPath, s.CIDRs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

// validateServiceCIDRUpdate: ranges do not change; the other family may come to
// the first.
func validateServiceCIDRUpdate(o, old *networkingv1.ServiceCIDR) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	had, have := old.Spec.CIDRs, o.Spec.CIDRs
	widened := len(had) == 1 && len(have) == 2
	if len(had) != len(have) && !widened {
		return append(errs, field.Invalid(cidrsPath, have, apivalidation.FieldImmutableErrorMsg))
	}
	for i := range had {
		if had[i] != have[i] {
			errs = append(errs, field.Invalid(cidrsPath.Index(i), have[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if widened {
		errs = append(errs, validateServiceRanges(&o.Spec)...)
	}
	return errs
}
