package serviceproxy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/sdk/proxy"
)

// keepListeners takes addresses of this machine out of a service whose ports
// the kernel or the agent listens on: the proxy's rules would lead everybody
// who calls them to the service's endpoints instead. An event on the service
// says so, once for each set of addresses.
func (f *Feeder) keepListeners(name proxy.Name, svc *corev1.Service, s *proxy.Service) {
	if s == nil || f.cfg.Listening == nil {
		delete(f.refused, name)
		return
	}
	var told []string
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
	text := strings.Join(told, "; ")
	if text == "" {
		delete(f.refused, name)
		return
	}
	if f.refused[name] == text {
		return
	}
	f.refused[name] = text
	if f.events != nil {
		f.events.Eventf(svc, corev1.EventTypeWarning, "AddressRefused", "Service is not served on the node's own %s", text)
	}
	f.cfg.Logger.Warn("service wants an address that the kernel listens on; it is not served there", "service", name.String(), "address", text)
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
