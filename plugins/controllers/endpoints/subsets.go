package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	utilnet "k8s.io/utils/net"
)

// maxCapacity is the most addresses one Endpoints object may hold.
const maxCapacity = 1000

// packer collects addresses with their ports and lays them out in the
// fewest subsets.
type packer struct {
	addresses map[addressKey]*address
	ports     map[string]corev1.EndpointPort // by portKey; none has the empty key
	offers    map[string]map[addressKey]bool // port key to its addresses, whether ready
}

// addressKey tells two pods with the same address (of their node) apart.
type addressKey struct {
	ip  string
	uid types.UID
}

type address struct {
	key   addressKey
	value corev1.EndpointAddress
}

// subsetsOf returns the wanted subsets of a service (EPC-9, EPC-10).
func subsetsOf(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	p := newPacker()
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
			p.add(a, nil, ready)
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			number, err := endpointslice.FindPort(pod, port)
			if err != nil {
				continue // the pod has no port of that name
			}
			p.add(a, &corev1.EndpointPort{
				Name: port.Name, Port: int32(number), Protocol: port.Protocol, AppProtocol: port.AppProtocol,
			}, ready)
		}
	}
	return p.subsets()
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

// repack lays subsets out the way subsetsOf does.
func repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	p := newPacker()
	for _, s := range subsets {
		for list, ready := range map[*[]corev1.EndpointAddress]bool{&s.Addresses: true, &s.NotReadyAddresses: false} {
			for _, a := range *list {
				if len(s.Ports) == 0 {
					p.add(a, nil, ready)
				}
				for i := range s.Ports {
					p.add(a, &s.Ports[i], ready)
				}
			}
		}
	}
	return p.subsets()
}

func newPacker() *packer {
	return &packer{addresses: map[addressKey]*address{}, ports: map[string]corev1.EndpointPort{}, offers: map[string]map[addressKey]bool{}}
}

// add says that an address offers a port; nil is for none. Not ready once is
// not ready.
func (p *packer) add(a corev1.EndpointAddress, port *corev1.EndpointPort, ready bool) {
	key := addressKey{ip: a.IP}
	if a.TargetRef != nil {
		key.uid = a.TargetRef.UID
	}
	if p.addresses[key] == nil {
		if a.TargetRef != nil && a.TargetRef.ResourceVersion != "" {
			ref := *a.TargetRef
			ref.ResourceVersion = "" // older writers put it there; no difference
			a.TargetRef = &ref
		}
		p.addresses[key] = &address{key: key, value: a}
	}
	portKey := ""
	if port != nil {
		app := "-"
		if port.AppProtocol != nil {
			app = "=" + *port.AppProtocol
		}
		portKey = fmt.Sprintf("%s/%05d/%s/%s", port.Name, port.Port, port.Protocol, app)
		p.ports[portKey] = *port
	}
	if p.offers[portKey] == nil {
		p.offers[portKey] = map[addressKey]bool{}
	}
	was, known := p.offers[portKey][key]
	p.offers[portKey][key] = ready && (was || !known)
}

// subsets puts ports that are offered by the same addresses together. Its
// order is by port and by address, so that equal input gives equal output.
func (p *packer) subsets() []corev1.EndpointSubset {
	type group struct {
		members []*address
		offer   map[addressKey]bool
		ports   []corev1.EndpointPort
	}
	var groups []*group
	byMembers := map[string]*group{}
	for _, portKey := range slices.Sorted(maps.Keys(p.offers)) {
		offer := p.offers[portKey]
		var members []*address
		for key := range offer {
			members = append(members, p.addresses[key])
		}
		slices.SortFunc(members, func(a, b *address) int {
			return cmp.Or(cmp.Compare(a.key.ip, b.key.ip), cmp.Compare(a.key.uid, b.key.uid))
		})
		var id strings.Builder
		for _, m := range members {
			fmt.Fprintf(&id, "%s %s %t\n", m.key.ip, m.key.uid, offer[m.key])
		}
		g := byMembers[id.String()]
		if g == nil {
			g = &group{members: members, offer: offer}
			byMembers[id.String()] = g
			groups = append(groups, g)
		}
		if port, ok := p.ports[portKey]; ok {
			g.ports = append(g.ports, port)
		}
	}
	out := make([]corev1.EndpointSubset, 0, len(groups))
	for _, g := range groups {
		s := corev1.EndpointSubset{Ports: g.ports}
		for _, m := range g.members {
			if g.offer[m.key] {
				s.Addresses = append(s.Addresses, m.value)
			} else {
				s.NotReadyAddresses = append(s.NotReadyAddresses, m.value)
			}
		}
		out = append(out, s)
	}
	return out
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
