package endpoints

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	utilnet "k8s.io/utils/net"

	"pintle.dev/pintle/plugins/controllers/subsets"
)

// maxCapacity is the most addresses one Endpoints object may hold.
const maxCapacity = 1000

// subsetsOf returns the wanted subsets of a service (EPC-9, EPC-10).
func subsetsOf(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	p := subsets.New()
	for _, pod := range pods {
		if !endpointsliceutil.ShouldPodBeInEndpoints(pod, service.Spec.PublishNotReadyAddresses) {
			continue
		}
		ip := addressFor(service, pod)
		if ip == "" {
			continue // a node without the service's address family
		}
		a := corev1.EndpointAddress{
			IP: ip, NodeName: new(string),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}
		*a.NodeName = pod.Spec.NodeName
		if endpointsliceutil.ShouldSetHostname(pod, service) {
			a.Hostname = pod.Spec.Hostname
		}
		ready := service.Spec.PublishNotReadyAddresses || endpointsliceutil.IsPodReady(pod)
		if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
			p.Add(a, nil, ready)
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			number, err := endpointslice.FindPort(pod, port)
			if err != nil {
				continue // the pod has no port of that name
			}
			p.Add(a, &corev1.EndpointPort{
				Name: port.Name, Port: int32(number), Protocol: port.Protocol, AppProtocol: port.AppProtocol,
			}, ready)
		}
	}
	return p.Subsets()
}

// addressFor is the pod's address in the service's first family.
func addressFor(service *corev1.Service, pod *corev1.Pod) string {
	wantIPv6 := false
	switch {
	case len(service.Spec.IPFamilies) > 0:
		wantIPv6 = service.Spec.IPFamilies[0] == corev1.IPv6Protocol
	case service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone:
		wantIPv6 = utilnet.IsIPv6String(service.Spec.ClusterIP)
	default:
		wantIPv6 = utilnet.IsIPv6String(pod.Status.PodIP)
	}
	for _, candidate := range pod.Status.PodIPs {
		if ip := utilnet.ParseIPSloppy(candidate.IP); ip != nil && utilnet.IsIPv6(ip) == wantIPv6 {
			return ip.String()
		}
	}
	return ""
}

func countAddresses(e *corev1.Endpoints) (ready, notReady int) {
	for _, s := range e.Subsets {
		ready, notReady = ready+len(s.Addresses), notReady+len(s.NotReadyAddresses)
	}
	return ready, notReady
}

// annotationFits says whether the over-capacity annotation is right: only an
// object within the limit and without it needs no write.
func annotationFits(e *corev1.Endpoints) bool {
	ready, notReady := countAddresses(e)
	_, marked := e.Annotations[corev1.EndpointsOverCapacity]
	return ready+notReady <= maxCapacity && !marked
}

// truncate cuts to maxCapacity, ready addresses first, each subset by its
// share, and says whether it had to.
func truncate(e *corev1.Endpoints) bool {
	ready, notReady := countAddresses(e)
	if ready+notReady <= maxCapacity {
		return false
	}
	room, total, cutReady := maxCapacity-ready, notReady, false
	if ready > maxCapacity {
		room, total, cutReady = maxCapacity, ready, true
	}
	left := room
	for i := range e.Subsets {
		s := &e.Subsets[i]
		list := &s.NotReadyAddresses
		if cutReady {
			s.NotReadyAddresses, list = nil, &s.Addresses
		}
		// Shares are rounded up, so the last subset takes what is left.
		share := min(int(math.Ceil(float64(len(*list))/float64(total)*float64(room))), left, len(*list))
		*list = (*list)[:share]
		left -= share
	}
	return true
}
