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
	UID             string // another one of the same name has another
	Created         time.Time
	Labels          map[string]string
	Addresses       []netip.Addr
	Ports           []Port
	Local           bool // it is of this node
}

// Cluster is all that a program is made from. Compile changes nothing of it. A Compiler is
// given the same objects again for what did not change, and others for what did.
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

// Owners are the pods that have addresses now.
type Owners map[netip.Addr]*Pod

// Owners gives each address one owner: the pod that was made last. An address that an ended
// pod left is another one's soon.
func (c *Cluster) Owners() Owners {
	out := make(Owners, len(c.Pods))
	for _, p := range c.Pods {
		for _, a := range p.Addresses {
			if other := out[a]; other == nil || later(p, other) {
				out[a] = p
			}
		}
	}
	return out
}

func later(a, b *Pod) bool {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c > 0
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) > 0
}

// of are the addresses of a pod that are its own by now, each once.
func (o Owners) of(p *Pod) []netip.Addr {
	own := make([]netip.Addr, 0, len(p.Addresses))
	for _, a := range p.Addresses {
		if o[a] == p && !slices.Contains(own, a) {
			own = append(own, a)
		}
	}
	return own
}

// families are those that pods and ranges have, in order.
func (c *Cluster) families() []Family {
	found := map[Family]bool{}
	for _, r := range c.Ranges {
		found[familyOf(r.Addr())] = true
	}
	for _, p := range c.Pods {
		for _, a := range p.Addresses {
			found[familyOf(a)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
