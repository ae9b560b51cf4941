package resources

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

func validateServiceCreate(s *corev1.Service) field.ErrorList {
	errs := validateMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSLabel)
	return append(errs, validateService(s, nil)...)
}

func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	errs := validateMetaUpdate(&s.ObjectMeta, &old.ObjectMeta)
	if needsClusterIP(s) && needsClusterIP(old) {
		errs = append(errs, validateClusterIPChange(s, old)...)
		errs = append(errs, validateFamilyChange(s, old)...)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		!ptr.Equal(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(specPath.Child("loadBalancerClass"), s.Spec.LoadBalancerClass, "may not change once set"))
	}
	if needsHealthCheck(old) && needsHealthCheck(s) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(specPath.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, validateService(s, old)...)
}

func validateService(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	spec, headless := &s.Spec, isHeadless(s)
	add := func(e ...*field.Error) { errs = append(errs, e...) }
	if mode, ok := s.Annotations[corev1.AnnotationTopologyMode]; ok {
		if hints, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok && mode != hints {
			add(field.Invalid(metadataPath.Child("annotations").Key(corev1.AnnotationTopologyMode), mode,
				fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints)))
		}
	}
	ports := specPath.Child("ports")
	if len(spec.Ports) == 0 && !headless && spec.Type != corev1.ServiceTypeExternalName {
		add(field.Required(ports, ""))
	}
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless {
			add(field.Invalid(specPath.Child("clusterIPs").Index(0), spec.ClusterIPs[0], fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		const never = "may not be set for ExternalName services"
		if len(spec.ClusterIPs) > 0 {
			add(field.Forbidden(specPath.Child("clusterIPs"), never))
		}
		if len(spec.IPFamilies) > 0 {
			add(field.Forbidden(specPath.Child("ipFamilies"), never))
		}
		if spec.IPFamilyPolicy != nil {
			add(field.Forbidden(specPath.Child("ipFamilyPolicy"), never))
		}
		if cname := strings.TrimSuffix(spec.ExternalName, "."); cname != "" {
			add(invalidAll(specPath.Child("externalName"), cname, validation.IsDNS1123Subdomain(cname))...)
		} else {
			add(field.Required(specPath.Child("externalName"), ""))
		}
	}
	names := map[string]bool{}
	for i := range spec.Ports {
		add(validateServicePort(&spec.Ports[i], len(spec.Ports) > 1, names, ports.Index(i))...)
	}
	if spec.Selector != nil {
		add(metav1validation.ValidateLabels(spec.Selector, specPath.Child("selector"))...)
	}
	add(validateSessionAffinity(spec)...)
	add(validateClusterIPs(s, old)...)

	var oldIPs []string
	if old != nil {
		oldIPs = old.Spec.ExternalIPs
	}
	for i, ip := range spec.ExternalIPs {
		p := specPath.Child("externalIPs").Index(i)
		if bad := validation.IsValidIPForLegacyField(p, ip, true, oldIPs); len(bad) != 0 {
			add(bad...)
		} else {
			add(validateEndpointIP(ip, p)...)
		}
	}
	add(oneOf(specPath.Child("type"), spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	add(validateServicePortNumbers(spec, ports)...)
	add(validateSourceRanges(s, old)...)

	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	const onlyBalanced = "may only be used when `type` is 'LoadBalancer'"
	if spec.AllocateLoadBalancerNodePorts != nil && !balanced {
		add(field.Forbidden(specPath.Child("allocateLoadBalancerNodePorts"), onlyBalanced))
	}
	if spec.AllocateLoadBalancerNodePorts == nil && balanced {
		add(field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	if class := spec.LoadBalancerClass; class != nil {
		if balanced {
			add(invalidAll(specPath.Child("loadBalancerClass"), *class, validation.IsQualifiedName(*class))...)
		} else {
			add(field.Forbidden(specPath.Child("loadBalancerClass"), onlyBalanced))
		}
	}
	return append(errs, validateTraffic(s)...)
}

func validateServicePort(p *corev1.ServicePort, named bool, names map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, invalidAll(path.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
		if names[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, invalidAll(path.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	errs = append(errs, oneOf(path.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	errs = append(errs, validatePortOrName(p.TargetPort, path.Child("targetPort"))...)
	if p.AppProtocol != nil {
		errs = append(errs, invalidAll(path.Child("appProtocol"), *p.AppProtocol, validation.IsQualifiedName(*p.AppProtocol))...)
	}
	return errs
}

func validateServicePortNumbers(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i := range spec.Ports {
			if spec.Ports[i].NodePort != 0 {
				errs = append(errs, field.Forbidden(path.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	seen := map[corev1.ServicePort]bool{}
	for i, p := range spec.Ports {
		key := corev1.ServicePort{Protocol: p.Protocol, NodePort: p.NodePort}
		if p.NodePort != 0 && seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), p.NodePort))
		}
		seen[key] = true
	}
	for i, p := range spec.Ports {
		key := corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}
		if seen[key] && p.Port != 0 {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
		seen[key] = true
	}
	return errs
}

func validateServiceStatusUpdate(s, old *corev1.Service) field.ErrorList {
	errs := validateMetaUpdate(&s.ObjectMeta, &old.ObjectMeta)
	path := field.NewPath("status", "loadBalancer", "ingress")
	ingress := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(ingress) != 0 {
		return append(errs, field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
	}
	var was []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		was = append(was, in.IP)
	}
	for i, in := range ingress {
		p := path.Index(i)
		if in.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(p.Child("ip"), in.IP, true, was)...)
		}
		switch {
		case in.IPMode == nil && in.IP != "":
			errs = append(errs, field.Required(p.Child("ipMode"), "must be specified when `ip` is set"))
		case in.IPMode != nil && in.IP == "":
			errs = append(errs, field.Forbidden(p.Child("ipMode"), "may not be specified when `ip` is not set"))
		case in.IPMode != nil:
			errs = append(errs, supported(p.Child("ipMode"), *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		}
		if in.Hostname != "" {
			errs = append(errs, invalidAll(p.Child("hostname"), in.Hostname, validation.IsDNS1123Subdomain(in.Hostname))...)
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				errs = append(errs, field.Invalid(p.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}

func serviceWarnings(s *corev1.Service) []string {
	var out []string
	spec := &s.Spec
	if _, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		out = append(out, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if headless {
		if spec.LoadBalancerIP != "" {
			out = append(out, "spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			out = append(out, "spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			out = append(out, "spec.SessionAffinity is ignored for headless services")
		}
	} else {
		for i, ip := range spec.ClusterIPs {
			out = append(out, validation.GetWarningsForIP(specPath.Child("clusterIPs").Index(i), ip)...)
		}
	}
	for i, ip := range spec.ExternalIPs {
		out = append(out, validation.GetWarningsForIP(specPath.Child("externalIPs").Index(i), ip)...)
	}
	if len(spec.ExternalIPs) > 0 && !headless && spec.Type != corev1.ServiceTypeExternalName {
		out = append(out, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		out = append(out, validation.GetWarningsForIP(specPath.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(specPath.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if spec.Type == corev1.ServiceTypeExternalName && len(spec.ExternalIPs) > 0 {
		out = append(out, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName))
	}
	if spec.Type != corev1.ServiceTypeExternalName && spec.ExternalName != "" {
		out = append(out, fmt.Sprintf("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName))
	}
	if ptr.Deref(spec.TrafficDistribution, "") == corev1.ServiceTrafficDistributionPreferClose {
		out = append(out, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q", corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return out
}
