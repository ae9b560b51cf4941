package program

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
)

// Protocols that ports can be of, by their numbers.
const (
	TCP  uint8 = 6
	UDP  uint8 = 17
	SCTP uint8 = 132
)

// Port is a port of a container that has a name.
type Port struct {
	Name     string
	Protocol uint8
	Number   uint16
}

// Pod is what policies have to do with of a pod. One with the node's own network, and one
// that has ended, is none.
type Pod struct {
	Namespace, Name string
	Created         time.Time
	Labels          map[string]string
	Addresses       []netip.Addr
	Ports           []Port
	Local           bool // it is of this node
}

// Cluster is all that a program is made from. Compile changes nothing of it.
type Cluster struct {
	Pods []*Pod
	// Namespaces are their labels by their names.
	Namespaces map[string]map[string]string
	Policies   []*networkingv1.NetworkPolicy
	// Ranges are those that pods of this node have their addresses from.
	Ranges []netip.Prefix
	// Bridges are the names of those that connect pods of this node, in order.
	Bridges []string
}

// directory finds pods by namespace and by address.
type directory struct {
	cluster     *Cluster
	byNamespace map[string][]*Pod
	byAddress   map[netip.Addr]*Pod
	families    []Family
}

// newDirectory gives each address one owner: the pod that was made last. An address that
// an ended pod left is another one's soon.
func newDirectory(c *Cluster) *directory {
	d := &directory{cluster: c, byNamespace: map[string][]*Pod{}, byAddress: map[netip.Addr]*Pod{}}
	families := map[Family]bool{}
	for _, r := range c.Ranges {
		families[familyOf(r.Addr())] = true
	}
	for _, p := range c.Pods {
		d.byNamespace[p.Namespace] = append(d.byNamespace[p.Namespace], p)
		for _, a := range p.Addresses {
			families[familyOf(a)] = true
			if other := d.byAddress[a]; other == nil || later(p, other) {
				d.byAddress[a] = p
			}
		}
	}
	d.families = slices.Sorted(maps.Keys(families))
	return d
}

func later(a, b *Pod) bool {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c > 0
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) > 0
}

// addresses are those of a pod that are its own by now.
func (d *directory) addresses(p *Pod) []netip.Addr {
	var own []netip.Addr
	for _, a := range p.Addresses {
		if d.byAddress[a] == p {
			own = append(own, a)
		}
	}
	return own
}
