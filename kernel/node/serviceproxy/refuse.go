package serviceproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/sdk/proxy"
)

// keepOthers takes addresses out of a service that are others': the proxy's rules would
// lead everybody who calls them to the service's endpoints instead. An event on the
// service says so, once for each set of addresses.
func (f *Feeder) keepOthers(name proxy.Name, svc *corev1.Service, s *proxy.Service) {
	if s == nil {
		delete(f.refused, name)
		return
	}
	var list []string
	if told := f.keepClusterIPs(s); len(told) > 0 {
		list = append(list, strings.Join(told, "; "))
	}
	if told := f.keepListeners(s); len(told) > 0 {
		list = append(list, "the node's own "+strings.Join(told, "; "))
	}
	text := strings.Join(list, "; ")
	if text == "" {
		delete(f.refused, name)
		return
	}
	if f.refused[name] == text {
		return
	}
	f.refused[name] = text
	if f.events != nil {
		f.events.Eventf(svc, corev1.EventTypeWarning, "AddressRefused", "Service is not served on %s", text)
	}
	f.cfg.Logger.Warn("service wants an address that is another's; it is not served there", "service", name.String(), "address", text)
}

const (
	clusterIndex = "clusterIP" // services by their cluster IPs
	outsideIndex = "outsideIP" // services by their load balancers' addresses and external IPs
)

// addressIndexers find services by addresses, written as netip does.
func addressIndexers() cache.Indexers {
	by := func(texts func(*corev1.Service) []string) cache.IndexFunc {
		return func(o any) ([]string, error) {
			svc, ok := o.(*corev1.Service)
			if !ok {
				return nil, nil
			}
			var list []string
			for _, text := range texts(svc) {
				if ip, err := netip.ParseAddr(text); err == nil {
					list = append(list, ip.Unmap().String())
				}
			}
			return list, nil
		}
	}
	return cache.Indexers{
		clusterIndex: by(func(svc *corev1.Service) []string { return svc.Spec.ClusterIPs }),
		outsideIndex: by(func(svc *corev1.Service) (list []string) {
			for _, in := range svc.Status.LoadBalancer.Ingress {
				list = append(list, in.IP)
			}
			return append(list, svc.Spec.ExternalIPs...)
		}),
	}
}

// outsideAt are the services that have a cluster IP of an object as a load balancer's address
// or an external IP: with the object, what they are served on changes.
func (f *Feeder) outsideAt(o any) (names []proxy.Name) {
	svc, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	for _, text := range svc.Spec.ClusterIPs {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue // None
		}
		objects, err := f.byIP.ByIndex(outsideIndex, ip.Unmap().String())
		if err != nil {
			continue // there is such an index
		}
		for _, o := range objects {
			if name, ok := serviceName(o); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// isClusterIP tells whether a service has an address as a cluster IP.
func (f *Feeder) isClusterIP(ip netip.Addr) bool {
	if f.byIP == nil {
		return false
	}
	objects, err := f.byIP.ByIndex(clusterIndex, ip.String())
	return err == nil && len(objects) > 0
}

// keepClusterIPs takes addresses of a load balancer out that are in the range of cluster
// IPs, or a cluster IP of any range: whatever a cloud provider answers, it takes no
// service's traffic. An external IP is taken out where a service has it as a cluster IP, also
// one without endpoints.
func (f *Feeder) keepClusterIPs(s *proxy.Service) (told []string) {
	s.LoadBalancerIps = slices.DeleteFunc(slices.Clone(s.LoadBalancerIps), func(text string) bool {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return false // proxies leave it out
		}
		ip = ip.Unmap()
		switch {
		case slices.ContainsFunc(f.cfg.Options.ServiceCIDRs, func(cidr string) bool {
			p, err := netip.ParsePrefix(cidr)
			return err == nil && p.Contains(ip)
		}):
			told = append(told, "the load balancer's address "+text+", which is in the range of cluster IPs")
		case f.isClusterIP(ip):
			told = append(told, "the load balancer's address "+text+", which is a cluster IP")
		default:
			return false
		}
		return true
	})
	s.ExternalIps = slices.DeleteFunc(slices.Clone(s.ExternalIps), func(text string) bool {
		ip, err := netip.ParseAddr(text)
		if err != nil || !f.isClusterIP(ip.Unmap()) {
			return false
		}
		told = append(told, "the external IP "+text+", which is a cluster IP")
		return true
	})
	return told
}

// keepListeners takes addresses of this machine out whose ports the kernel or the agent
// listens on.
func (f *Feeder) keepListeners(s *proxy.Service) (told []string) {
	if f.cfg.Listening == nil {
		return nil
	}
	keep := func(ips []string) []string {
		return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool {
			l, taken := f.takes(s, ip)
			if taken {
				told = append(told, fmt.Sprintf("%s, on whose port %d %s listens", ip, l.Port, l.Owner))
			}
			return taken
		})
	}
	s.ExternalIps, s.LoadBalancerIps = keep(s.ExternalIps), keep(s.LoadBalancerIps)
	for _, p := range s.Ports {
		// The range of node ports may hold them.
		if l, taken := f.cfg.Listening().Taken(corev1.Protocol(p.Protocol), "", p.NodePort); taken {
			told = append(told, fmt.Sprintf("node port %d, on which %s listens", l.Port, l.Owner))
			p.NodePort = 0
		}
	}
	return told
}

// takes finds the listener that the service on that address would hide.
func (f *Feeder) takes(s *proxy.Service, ip string) (listener.Listener, bool) {
	for _, p := range s.Ports {
		l, taken := f.cfg.Listening().Taken(corev1.Protocol(p.Protocol), ip, p.Port)
		if !taken {
			continue
		}
		// What cannot be found out is kept safe.
		if local, err := listener.Local(ip); err != nil || local || slices.Contains(f.cfg.Options.NodeIPs, ip) {
			return l, true
		}
	}
	return listener.Listener{}, false
}
