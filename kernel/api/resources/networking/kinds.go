package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// Kinds lists the served kinds.
func Kinds() []resources.Kind {
	return []resources.Kind{ingressKind(), ingressClassKind(), ipAddressKind(), networkPolicyKind(), serviceCIDRKind()}
}

// AddToScheme registers the defaulting functions of the kinds and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	resources.AddDefaults(s, setIngressClassDefaults, func(l *networkingv1.IngressClassList) []networkingv1.IngressClass { return l.Items })
	resources.AddDefaults(s, setNetworkPolicyDefaults, func(l *networkingv1.NetworkPolicyList) []networkingv1.NetworkPolicy { return l.Items })
	return nil
}

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// none is a cell without a value.
const none = "<none>"

// strictAddresses refuses addresses with leading zeros and the like, unless the
// stored object has them (StrictIPCIDRValidation, on since 1.36).
const strictAddresses = true

// invalid is one error a message.
func invalid(path *field.Path, value any, msgs []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}
