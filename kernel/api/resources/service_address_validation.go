package resources

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

// validateClusterIPs checks addresses, families and policy against each other.
func validateClusterIPs(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	spec := &s.Spec
	ips, families := specPath.Child("clusterIPs"), specPath.Child("ipFamilies")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) != 0:
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(ips, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	for i, f := range spec.IPFamilies {
		errs = append(errs, supported(families.Index(i), f, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(spec.IPFamilies[:i], f) {
			errs = append(errs, field.Duplicate(families.Index(i), f))
		}
	}
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, supported(specPath.Child("ipFamilyPolicy"), *p,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	var oldIPs []string
	if old != nil {
		oldIPs = old.Spec.ClusterIPs
	}
	unreadable := false
	for i, ip := range spec.ClusterIPs {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				unreadable = true
				errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		bad := validation.IsValidIPForLegacyField(ips.Index(i), ip, true, oldIPs)
		unreadable = unreadable || len(bad) > 0
		errs = append(errs, bad...)
	}
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if unreadable {
		return errs
	}
	if len(spec.ClusterIPs) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err != nil {
			errs = append(errs, field.InternalError(ips, fmt.Errorf("failed to check for dual stack with error:%w", err)))
		} else if !dual {
			errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if isHeadless(s) {
		return errs
	}
	for i := 0; i < min(len(spec.ClusterIPs), len(spec.IPFamilies)); i++ {
		ip, family := spec.ClusterIPs[i], spec.IPFamilies[i]
		if (family == corev1.IPv4Protocol && netutils.IsIPv6String(ip)) || (family == corev1.IPv6Protocol && !netutils.IsIPv6String(ip)) {
			errs = append(errs, field.Invalid(ips.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", family, i)))
		}
	}
	return errs
}

// validateClusterIPChange: the first address is for good; a second may come,
// and go with policy SingleStack.
func validateClusterIPChange(s, old *corev1.Service) field.ErrorList {
	if isHeadless(s) && isHeadless(old) {
		return nil
	}
	var errs field.ErrorList
	path, ips, was := specPath.Child("clusterIPs"), s.Spec.ClusterIPs, old.Spec.ClusterIPs
	if len(ips) == len(was) {
		for i := range ips {
			if ips[i] != was[i] {
				errs = append(errs, field.Invalid(path.Index(i), ips, "may not change once set"))
			}
		}
		return errs
	}
	if len(ips) == 0 {
		errs = append(errs, field.Invalid(path.Index(0), ips, "primary clusterIP can not be unset"))
	}
	if len(ips) > 0 && len(was) > 0 && ips[0] != was[0] {
		errs = append(errs, field.Invalid(path.Index(0), ips, "may not change once set"))
	}
	if len(ips) < len(was) && len(ips) == 1 && ptr.Deref(s.Spec.IPFamilyPolicy, "") != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

func validateFamilyChange(s, old *corev1.Service) field.ErrorList {
	if isHeadless(s) || isHeadless(old) {
		return nil
	}
	var errs field.ErrorList
	path, families, was := specPath.Child("ipFamilies").Index(0), s.Spec.IPFamilies, old.Spec.IPFamilies
	if len(families) == len(was) {
		for i := range families {
			if families[i] != was[i] {
				errs = append(errs, field.Invalid(path, families, "may not change once set"))
			}
		}
		return errs
	}
	if len(families) < len(was) && len(s.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(path, families, "primary ipFamily can not be unset"))
	}
	if len(families) > 0 && len(was) > 0 && families[0] != was[0] {
		errs = append(errs, field.Invalid(path, s.Spec.ClusterIPs, "may not change once set"))
	}
	if len(families) < len(was) && len(families) == 1 && ptr.Deref(s.Spec.IPFamilyPolicy, "") != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
