package cloud

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// mostIngress is how many addresses a load balancer may have.
const mostIngress = 64

// answers checks what a provider says the addresses of a load balancer are. Every proxy of
// the cluster serves them (ipMode VIP), so a wrong one would take another's traffic.
type answers struct {
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister

	mu    sync.Mutex
	taken map[types.NamespacedName]claim // answers that the listers may not have yet
}

// claim is what a service got, with the ports for which.
type claim struct {
	uid       types.UID
	addresses []netip.Addr
	ports     []port
}

type port struct {
	protocol corev1.Protocol
	number   int32
}

func newAnswers(services corelisters.ServiceLister, nodes corelisters.NodeLister) *answers {
	return &answers{services: services, nodes: nodes, taken: map[types.NamespacedName]claim{}}
}

// take checks an answer about a service, and keeps it so that no other service gets it.
func (a *answers) take(service *corev1.Service, status *corev1.LoadBalancerStatus) error {
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	if n := len(status.Ingress); n > mostIngress {
		return fmt.Errorf("the cloud provider answers with %d addresses, of which %d are too many", n, n-mostIngress)
	}
	mine := claim{uid: service.UID, ports: portsOf(service)}
	for _, in := range status.Ingress {
		if in.IP == "" && in.Hostname == "" {
			return fmt.Errorf("the cloud provider answers with an address that is empty")
		}
		if in.IP == "" || in.IPMode != nil && *in.IPMode == corev1.LoadBalancerIPModeProxy {
			continue // no proxy serves it
		}
		ip, err := netip.ParseAddr(in.IP)
		if err != nil || ip.Zone() != "" || ip.Is4In6() {
			return fmt.Errorf("the cloud provider answers with %.50q, which is not an IP address", in.IP)
		}
		if ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return fmt.Errorf("the cloud provider answers with %s, at which no load balancer can be", ip)
		}
		mine.addresses = append(mine.addresses, ip)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// What the service has already was checked when it got it. Were it checked again,
	// others could take it away by external IPs.
	before := addressesOf(service)
	fresh := claim{uid: mine.uid, ports: mine.ports, addresses: slices.DeleteFunc(slices.Clone(mine.addresses), func(ip netip.Addr) bool { return slices.Contains(before, ip) })}
	if err := a.free(name, fresh); err != nil {
		return err
	}
	a.taken[name] = mine
	return nil
}

// forget gives up what a service had; one of the same name is another.
func (a *answers) forget(service *corev1.Service) {
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken[name].uid == service.UID {
		delete(a.taken, name)
	}
}

// free tells whether addresses are nobody else's. It does not say whose: who asks may not
// read that namespace.
func (a *answers) free(name types.NamespacedName, mine claim) error {
	if len(mine.addresses) == 0 {
		return nil
	}
	nodes, err := a.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range nodes {
		for _, address := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(address.Address); err == nil && slices.Contains(mine.addresses, ip.Unmap()) {
				return fmt.Errorf("the cloud provider answers with %s, which is an address of node %s; one that serves at nodes says ipMode Proxy", ip, node.Name)
			}
		}
	}
	for other, has := range a.taken {
		if other == name {
			continue
		}
		// A provider whose load balancer is gone already is not asked to delete it.
		if s, err := a.services.Services(other.Namespace).Get(other.Name); err != nil || s.UID != has.uid {
			delete(a.taken, other)
			continue
		}
		if err := mine.against(has, name.Namespace == other.Namespace); err != nil {
			return err
		}
	}
	services, err := a.services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for _, s := range services {
		for _, text := range s.Spec.ClusterIPs {
			if ip, err := netip.ParseAddr(text); err == nil && slices.Contains(mine.addresses, ip) {
				return fmt.Errorf("the cloud provider answers with %s, which is the cluster IP of a service", ip)
			}
		}
		if s.Name == name.Name && s.Namespace == name.Namespace {
			continue
		}
		if err := mine.against(claimOf(s), name.Namespace == s.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// against tells whether a claim takes what another has. Services of one namespace may
// share an address by different ports. Those of two may not: each one's owner changes its
// ports at will, and a provider's answer stays the same.
func (c claim) against(o claim, neighbours bool) error {
	if !slices.ContainsFunc(c.addresses, func(ip netip.Addr) bool { return slices.Contains(o.addresses, ip) }) {
		return nil
	}
	if !neighbours {
		return errors.New("the cloud provider answers with an address that a service of another namespace has")
	}
	if slices.ContainsFunc(c.ports, func(p port) bool { return slices.Contains(o.ports, p) }) {
		return errors.New("the cloud provider answers with an address that another service has on the same port")
	}
	return nil
}

func portsOf(s *corev1.Service) []port {
	list := make([]port, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		list = append(list, port{p.Protocol, p.Port})
	}
	return list
}

// claimOf is what a service has by its status and its external IPs: proxies serve both.
func claimOf(s *corev1.Service) claim {
	c := claim{uid: s.UID, ports: portsOf(s), addresses: addressesOf(s)}
	for _, text := range s.Spec.ExternalIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			c.addresses = append(c.addresses, ip.Unmap())
		}
	}
	return c
}

// addressesOf are those of a service's status that proxies serve.
func addressesOf(s *corev1.Service) []netip.Addr {
	var list []netip.Addr
	for _, in := range s.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(in.IP); err == nil && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			list = append(list, ip)
		}
	}
	return list
}
