package serviceproxy

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"pintle.dev/pintle/sdk/proxy"
)

// serviceOf converts a service; nil where a proxy has nothing to do for it.
func serviceOf(svc *corev1.Service) *proxy.Service {
	if svc == nil || svc.Labels["service.kubernetes.io/service-proxy-name"] != "" {
		return nil // the label hands the service to another proxy
	}
	out := &proxy.Service{
		Name:                     &proxy.ServiceName{Namespace: svc.Namespace, Name: svc.Name},
		Uid:                      string(svc.UID),
		Type:                     string(svc.Spec.Type),
		ExternalIps:              svc.Spec.ExternalIPs,
		LoadBalancerSourceRanges: svc.Spec.LoadBalancerSourceRanges,
		SessionAffinity:          string(svc.Spec.SessionAffinity),
		ExternalTrafficPolicy:    string(svc.Spec.ExternalTrafficPolicy),
		HealthCheckNodePort:      svc.Spec.HealthCheckNodePort,
		ExternalName:             svc.Spec.ExternalName,
		PublishNotReadyAddresses: svc.Spec.PublishNotReadyAddresses,
		Labels:                   svc.Labels,
		Annotations:              svc.Annotations,
	}
	for _, ip := range svc.Spec.ClusterIPs {
		if ip != "" && ip != corev1.ClusterIPNone {
			out.ClusterIps = append(out.ClusterIps, ip)
		}
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			out.LoadBalancerIps = append(out.LoadBalancerIps, in.IP)
		}
	}
	if svc.Spec.InternalTrafficPolicy != nil {
		out.InternalTrafficPolicy = string(*svc.Spec.InternalTrafficPolicy)
	}
	if svc.Spec.TrafficDistribution != nil {
		out.TrafficDistribution = *svc.Spec.TrafficDistribution
	}
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		out.SessionAffinityTimeoutSeconds = *c.ClientIP.TimeoutSeconds
	}
	for _, p := range svc.Spec.Ports {
		sp := &proxy.ServicePort{Name: p.Name, Protocol: string(p.Protocol), Port: p.Port, NodePort: p.NodePort}
		if p.AppProtocol != nil {
			sp.AppProtocol = *p.AppProtocol
		}
		out.Ports = append(out.Ports, sp)
	}
	return out
}

// endpointsOf merges the slices of one service. The order is fixed, so that
// equal slices give equal messages.
func endpointsOf(name proxy.Name, slicesOf []*discoveryv1.EndpointSlice, node string) *proxy.ServiceEndpoints {
	type portKey struct{ name, protocol string }
	ports := map[portKey][]*proxy.Endpoint{}
	for _, slice := range slicesOf {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil {
				continue
			}
			key := portKey{deref(p.Name), string(corev1.ProtocolTCP)}
			if p.Protocol != nil {
				key.protocol = string(*p.Protocol)
			}
			for _, e := range slice.Endpoints {
				for _, ip := range e.Addresses {
					ports[key] = append(ports[key], endpointOf(&e, ip, *p.Port, node))
				}
			}
			if _, ok := ports[key]; !ok {
				ports[key] = nil
			}
		}
	}
	out := &proxy.ServiceEndpoints{Name: &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}}
	for key, list := range ports {
		slices.SortFunc(list, func(a, b *proxy.Endpoint) int {
			return cmp.Or(cmp.Compare(a.Ip, b.Ip), cmp.Compare(a.Port, b.Port))
		})
		out.Ports = append(out.Ports, &proxy.PortEndpoints{PortName: key.name, Protocol: key.protocol, Endpoints: list})
	}
	slices.SortFunc(out.Ports, func(a, b *proxy.PortEndpoints) int {
		return cmp.Or(cmp.Compare(a.PortName, b.PortName), cmp.Compare(a.Protocol, b.Protocol))
	})
	return out
}

func endpointOf(e *discoveryv1.Endpoint, ip string, port int32, node string) *proxy.Endpoint {
	out := &proxy.Endpoint{
		Ip: ip, Port: port,
		// Unset means ready, and serving means ready where it is unset.
		Ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
		Terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
		NodeName:    deref(e.NodeName),
		Zone:        deref(e.Zone),
		Hostname:    deref(e.Hostname),
	}
	out.Serving = out.Ready
	if e.Conditions.Serving != nil {
		out.Serving = *e.Conditions.Serving
	}
	out.Local = node != "" && out.NodeName == node
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			out.ZoneHints = append(out.ZoneHints, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			out.NodeHints = append(out.NodeHints, n.Name)
		}
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
