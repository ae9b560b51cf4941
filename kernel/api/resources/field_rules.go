package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Words of upstream's that several rules share.
const (
	notNegative = apivalidation.IsNegativeErrorMsg
	notPositive = "must be greater than zero"
	badFileMode = "must be a number between 0 and 0777 (octal), both inclusive"
)

// strictIPs refuses addresses with leading zeros and the like, unless the
// stored object has them (StrictIPCIDRValidation, on since 1.36).
const strictIPs = true

// validateMeta checks the metadata of a new object of the core group, whose
// finalizers must be qualified or well known.
func validateMeta(m *metav1.ObjectMeta, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(m, namespaced, name, metadataPath)
	return append(errs, validateFinalizers(m)...)
}

func validateMetaUpdate(m, old *metav1.ObjectMeta) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(m, old, metadataPath)
	return append(errs, validateFinalizers(m)...)
}

func validateFinalizers(m *metav1.ObjectMeta) field.ErrorList {
	var errs field.ErrorList
	for i, f := range m.Finalizers {
		errs = append(errs, validateCoreFinalizer(f, metadataPath.Child("finalizers").Index(i))...)
	}
	return errs
}

func validateCoreFinalizer(f string, path *field.Path) field.ErrorList {
	switch f {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return nil
	}
	if strings.Contains(f, "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, f, "name is neither a standard finalizer name nor is it fully qualified")}
}

// invalidAll is one Invalid error a message.
func invalidAll(path *field.Path, value any, msgs []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// oneOf: the value is required and one of those given.
func oneOf[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return supported(path, value, values...)
}

// supported: the value is one of those given, which are listed in order.
func supported[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	values = slices.Clone(values)
	slices.Sort(values)
	return field.ErrorList{field.NotSupported(path, value, values)}
}

func required(path *field.Path, value string) field.ErrorList {
	if value != "" {
		return nil
	}
	return field.ErrorList{field.Required(path, "")}
}

func nonNegative(path *field.Path, value int64) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}

func nonNegativeQuantity(path *field.Path, q resource.Quantity) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), notNegative)}
}

func inRange(path *field.Path, value any, n, lo, hi int64) field.ErrorList {
	if n >= lo && n <= hi {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, validation.InclusiveRangeError(int(lo), int(hi)))}
}

func validatePortOrName(p intstr.IntOrString, path *field.Path) field.ErrorList {
	switch p.Type {
	case intstr.Int:
		return invalidAll(path, p.IntValue(), validation.IsValidPortNum(p.IntValue()))
	case intstr.String:
		return invalidAll(path, p.StrVal, validation.IsValidPortName(p.StrVal))
	}
	return field.ErrorList{field.InternalError(path, fmt.Errorf("unknown type: %v", p.Type))}
}

func validateEndpointIP(ip string, path *field.Path) field.ErrorList {
	addr := netutils.ParseIPSloppy(ip)
	if addr == nil {
		return field.ErrorList{field.Invalid(path, ip, "must be a valid IP address")}
	}
	var errs field.ErrorList
	for _, rule := range []struct {
		bad  bool
		what string
	}{
		{addr.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", ip)},
		{addr.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{addr.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{addr.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if rule.bad {
			errs = append(errs, field.Invalid(path, ip, rule.what))
		}
	}
	return errs
}
