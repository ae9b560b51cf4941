package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSessionAffinity(spec *corev1.ServiceSpec) field.ErrorList {
	path := specPath.Child("sessionAffinityConfig")
	errs := oneOf(specPath.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	switch c := spec.SessionAffinityConfig; spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
		}
	case corev1.ServiceAffinityClientIP:
		switch {
		case c == nil:
			errs = append(errs, field.Required(path, fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)))
		case c.ClientIP == nil:
			errs = append(errs, field.Required(path.Child("clientIP"), fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)))
		case c.ClientIP.TimeoutSeconds == nil:
			errs = append(errs, field.Required(path.Child("clientIP").Child("timeoutSeconds"), fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)))
		case *c.ClientIP.TimeoutSeconds <= 0 || *c.ClientIP.TimeoutSeconds > 86400:
			errs = append(errs, field.Invalid(path.Child("clientIP").Child("timeoutSeconds"), c.ClientIP.TimeoutSeconds,
				fmt.Sprintf("must be greater than 0 and less than %d", 86400)))
		}
	}
	return errs
}

func validateSourceRanges(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	const only = "may only be used when `type` is 'LoadBalancer'"
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		path := specPath.Child("LoadBalancerSourceRanges")
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(path, only))
		}
		var was []string
		if old != nil {
			for _, v := range old.Spec.LoadBalancerSourceRanges {
				was = append(was, strings.TrimSpace(v))
			}
		}
		for i, v := range s.Spec.LoadBalancerSourceRanges {
			errs = append(errs, validation.IsValidCIDRForLegacyField(path.Index(i), strings.TrimSpace(v), true, was)...)
		}
		return errs
	}
	v, ok := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return nil
	}
	path := metadataPath.Child("annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(path, only))
	}
	if (old == nil || old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] != v) && strings.TrimSpace(v) != "" {
		for c := range strings.SplitSeq(v, ",") {
			errs = append(errs, validation.IsValidCIDRForLegacyField(path, strings.TrimSpace(c), true, nil)...)
		}
	}
	return errs
}

func validateTraffic(s *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	spec := &s.Spec
	external := specPath.Child("externalTrafficPolicy")
	if !externallyAccessible(s) {
		if spec.ExternalTrafficPolicy != "" {
			errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
		}
	} else {
		errs = append(errs, oneOf(external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	health := specPath.Child("healthCheckNodePort")
	switch port := spec.HealthCheckNodePort; {
	case !needsHealthCheck(s) && port != 0:
		errs = append(errs, field.Invalid(health, port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	case needsHealthCheck(s) && port == 0:
		errs = append(errs, field.Required(health, ""))
	case port != 0:
		errs = append(errs, invalidAll(health, port, validation.IsValidPortNum(int(port)))...)
	}
	internal := specPath.Child("internalTrafficPolicy")
	if p := spec.InternalTrafficPolicy; p != nil {
		errs = append(errs, supported(internal, *p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	} else if needsNodePort(s) || spec.Type == corev1.ServiceTypeClusterIP {
		errs = append(errs, field.Required(internal, ""))
	}
	if d := spec.TrafficDistribution; d != nil {
		known := []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}
		if !slices.Contains(known, *d) {
			errs = append(errs, field.NotSupported(specPath.Child("trafficDistribution"), *d, known))
		}
	}
	return errs
}
