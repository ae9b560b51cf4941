package local

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// forbidden are the addresses that no service may have, with the reason.
type forbidden struct {
	addresses map[netip.Addr]string
	ranges    []forbiddenRange
	asked     map[netip.Addr]string // by other services: none gets them, and who has one keeps it
}

type forbiddenRange struct {
	netip.Prefix
	why string
}

// why is the reason why nobody may get an address, or "".
func (f *forbidden) why(ip netip.Addr) string {
	if why := f.owned(ip); why != "" {
		return why
	}
	return f.asked[ip]
}

// owned is the reason why nobody may keep an address, or "".
func (f *forbidden) owned(ip netip.Addr) string {
	if why, is := f.addresses[ip]; is {
		return why
	}
	for _, r := range f.ranges {
		if r.Contains(ip) {
			return r.why
		}
	}
	return ""
}

func (f *forbidden) address(text, why string) {
	if ip, err := netip.ParseAddr(text); err == nil {
		f.addresses[ip.Unmap()] = why
	}
}

func (f *forbidden) prefix(text, why string) {
	if p, err := netip.ParsePrefix(text); err == nil {
		f.ranges = append(f.ranges, forbiddenRange{p, why})
	}
}

// forbidden reads what others than a service have now.
func (p *provider) forbidden(but types.NamespacedName) (*forbidden, error) {
	f := &forbidden{addresses: map[netip.Addr]string{}, asked: map[netip.Addr]string{}}
	nodes, err := p.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range nodes {
		for _, a := range node.Status.Addresses {
			f.address(a.Address, "it is an address of a node")
		}
		for _, pods := range node.Spec.PodCIDRs {
			f.prefix(pods, "it is in the range of a node's pods")
		}
	}
	ranges, err := p.cidrs.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list servicecidrs: %w", err)
	}
	for _, o := range ranges {
		for _, ips := range o.Spec.CIDRs {
			f.prefix(ips, "it is in a range of cluster IPs")
		}
	}
	servers, err := p.slices.EndpointSlices(metav1.NamespaceDefault).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: "kubernetes"}))
	if err != nil {
		return nil, fmt.Errorf("list endpointslices: %w", err)
	}
	for _, slice := range servers {
		for _, e := range slice.Endpoints {
			for _, a := range e.Addresses {
				f.address(a, "it is an address of an API server")
			}
		}
	}
	services, err := p.services.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	for _, s := range services {
		for _, ip := range s.Spec.ClusterIPs {
			f.address(ip, "it is a cluster IP")
		}
		if keyOf(s) == but {
			continue
		}
		for _, text := range s.Spec.ExternalIPs {
			if ip, err := netip.ParseAddr(text); err == nil {
				f.asked[ip.Unmap()] = "it is an external IP of another service"
			}
		}
		if mine(s) {
			continue // the pool knows those
		}
		for _, family := range families {
			for _, ip := range addressesOf(s, family) {
				f.asked[ip.Unmap()] = "another load balancer has it"
			}
		}
	}
	return f, nil
}

// mine tells which services upstream's controller asks this provider about.
func mine(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}
