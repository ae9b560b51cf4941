package subsets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Packer collects addresses with their ports and lays them out in the
// fewest subsets.
type Packer struct {
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

// Repack lays subsets out the way a Packer does.
func Repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	p := New()
	for _, s := range subsets {
		for list, ready := range map[*[]corev1.EndpointAddress]bool{&s.Addresses: true, &s.NotReadyAddresses: false} {
			for _, a := range *list {
				if len(s.Ports) == 0 {
					p.Add(a, nil, ready)
				}
				for i := range s.Ports {
					p.Add(a, &s.Ports[i], ready)
				}
			}
		}
	}
	return p.Subsets()
}

// New returns a packer that holds nothing.
func New() *Packer {
	return &Packer{addresses: map[addressKey]*address{}, ports: map[string]corev1.EndpointPort{}, offers: map[string]map[addressKey]bool{}}
}

// Add says that an address offers a port; nil is for none. Not ready once is
// not ready.
func (p *Packer) Add(a corev1.EndpointAddress, port *corev1.EndpointPort, ready bool) {
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

// Subsets puts ports that are offered by the same addresses together. Its
// order is by port and by address, so that equal input gives equal output.
func (p *Packer) Subsets() []corev1.EndpointSubset {
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
