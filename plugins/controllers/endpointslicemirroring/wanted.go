package endpointslicemirroring

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	endpointsliceutil "k8s.io/endpointslice/util"
	utilnet "k8s.io/utils/net"

	"pintle.dev/pintle/plugins/controllers/subsets"
)

// sliceKey is what tells the slices of one Endpoints object apart.
type sliceKey struct {
	family discoveryv1.AddressType
	ports  endpointsliceutil.PortMapKey
}

// wantedSlice is the content of one slice.
type wantedSlice struct {
	key       sliceKey
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// loss counts the addresses that are not mirrored.
type loss struct {
	invalid  int // not an IP
	overflow int // more than maxPerSubset in one subset
}

// wanted turns Endpoints into the content of their slices, one for each address
// family and set of ports, in a fixed order.
func wanted(endpoints *corev1.Endpoints) ([]wantedSlice, loss) {
	var lost loss
	byKey := map[sliceKey]*wantedSlice{}
	sets := map[sliceKey]endpointsliceutil.EndpointSet{}
	for _, subset := range subsets.Repack(endpoints.Subsets) {
		ports := portsOf(subset.Ports)
		portKey := endpointsliceutil.NewPortMapKey(ports) // sorts ports
		left := maxPerSubset
		for _, list := range []struct {
			addresses []corev1.EndpointAddress
			ready     bool
		}{{subset.Addresses, true}, {subset.NotReadyAddresses, false}} {
			for i := range list.addresses {
				if left == 0 {
					lost.overflow += len(list.addresses) - i
					break
				}
				family, endpoint := endpointOf(&list.addresses[i], list.ready)
				if endpoint == nil {
					lost.invalid++
					continue
				}
				left--
				key := sliceKey{family, portKey}
				if byKey[key] == nil {
					byKey[key], sets[key] = &wantedSlice{key: key, ports: ports}, endpointsliceutil.EndpointSet{}
				}
				// Two addresses that differ in what slices do not carry are one.
				if !sets[key].Has(endpoint) {
					sets[key].Insert(endpoint)
					byKey[key].endpoints = append(byKey[key].endpoints, *endpoint)
				}
			}
		}
	}
	return slices.SortedFunc(func(yield func(wantedSlice) bool) {
		for w := range maps.Values(byKey) {
			if !yield(*w) {
				return
			}
		}
	}, func(a, b wantedSlice) int {
		return cmp.Or(cmp.Compare(a.key.family, b.key.family), cmp.Compare(a.key.ports, b.key.ports))
	}), lost
}

func portsOf(list []corev1.EndpointPort) []discoveryv1.EndpointPort {
	out := make([]discoveryv1.EndpointPort, 0, len(list))
	for _, p := range list {
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

// endpointOf is nil for an address that is no IP.
func endpointOf(a *corev1.EndpointAddress, ready bool) (discoveryv1.AddressType, *discoveryv1.Endpoint) {
	// Endpoints of old may hold addresses with leading zeros.
	ip := utilnet.ParseIPSloppy(a.IP)
	if ip == nil {
		return "", nil
	}
	family := discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	e := &discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, NodeName: a.NodeName, TargetRef: a.TargetRef,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready},
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return family, e
}
