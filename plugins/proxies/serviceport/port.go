package serviceport

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"pintle.dev/pintle/sdk/proxy"
)

// DefaultStickyTime is how long a client sticks to an endpoint under ClientIP
// affinity where the service does not say (requirement LBR-6).
const DefaultStickyTime = 180 * time.Minute

// ID names one port of one service (requirements PUS-15, ODD-19: by the
// port's name).
type ID struct {
	proxy.Name
	Port     string
	Protocol string // TCP, UDP or SCTP
}

// String is namespace/name:port, the comment on rules and lines of log.
func (id ID) String() string {
	if id.Port == "" {
		return id.Name.String()
	}
	return id.Name.String() + ":" + id.Port
}

// Endpoint is one address that a port's traffic may go to.
type Endpoint struct {
	IP    string
	Port  int
	Local bool // on this node
}

// Address is ip:port.
func (e Endpoint) Address() string { return net.JoinHostPort(e.IP, strconv.Itoa(e.Port)) }

// Port is one port of one service. Ports are immutable.
type Port struct {
	ID
	ClusterIP       string
	Number          int // the port at the cluster IP
	NodePort        int // 0: none
	ExternalIPs     []string
	LoadBalancerIPs []string
	SourceRanges    []string      // who may use the load balancer's IPs; empty: everybody
	Sticky          time.Duration // 0: no affinity
	ExternalLocal   bool          // traffic from outside goes to this node's endpoints only
	InternalLocal   bool          // so does traffic from inside
	HealthCheckPort int
	Endpoints       []Endpoint
}

// Internal returns the endpoints for traffic to the cluster IP.
func (p *Port) Internal() []Endpoint {
	if p.InternalLocal {
		return local(p.Endpoints)
	}
	return p.Endpoints
}

// External returns the endpoints for traffic from outside the cluster.
func (p *Port) External() []Endpoint {
	if p.ExternalLocal {
		return local(p.Endpoints)
	}
	return p.Endpoints
}

func local(list []Endpoint) []Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return !e.Local })
}

// SamePath reports whether two ports differ in nothing but their endpoints:
// the comparison of requirement PUS-5, with the traffic policies that came since.
func (p *Port) SamePath(o *Port) bool {
	return p.ID == o.ID && p.ClusterIP == o.ClusterIP && p.Number == o.Number && p.NodePort == o.NodePort &&
		slices.Equal(p.ExternalIPs, o.ExternalIPs) && slices.Equal(p.LoadBalancerIPs, o.LoadBalancerIPs) &&
		slices.Equal(p.SourceRanges, o.SourceRanges) && p.Sticky == o.Sticky &&
		p.ExternalLocal == o.ExternalLocal && p.InternalLocal == o.InternalLocal
}

// Of returns the ports of one service, in the order of its spec. Services that
// are gone, headless or external names have none (requirement PUS-2).
func Of(s *proxy.State, name proxy.Name) []*Port {
	svc := s.Services[name]
	if svc == nil || svc.GetType() == "ExternalName" {
		return nil
	}
	ip := firstIPv4(svc.GetClusterIps())
	if ip == "" {
		return nil
	}
	ports := make([]*Port, 0, len(svc.GetPorts()))
	for _, sp := range svc.GetPorts() {
		p := &Port{
			ID:              ID{Name: name, Port: sp.GetName(), Protocol: sp.GetProtocol()},
			ClusterIP:       ip,
			Number:          int(sp.GetPort()),
			NodePort:        int(sp.GetNodePort()),
			ExternalIPs:     ipv4(svc.GetExternalIps()),
			LoadBalancerIPs: ipv4(svc.GetLoadBalancerIps()),
			SourceRanges:    svc.GetLoadBalancerSourceRanges(),
			ExternalLocal:   svc.GetExternalTrafficPolicy() == "Local",
			InternalLocal:   svc.GetInternalTrafficPolicy() == "Local",
			HealthCheckPort: int(svc.GetHealthCheckNodePort()),
			Endpoints:       usable(s.Of(name, sp)),
		}
		if svc.GetSessionAffinity() == "ClientIP" {
			p.Sticky = time.Duration(svc.GetSessionAffinityTimeoutSeconds()) * time.Second
			if p.Sticky <= 0 {
				p.Sticky = DefaultStickyTime
			}
		}
		ports = append(ports, p)
	}
	return ports
}

// usable picks the ready endpoints; where there is none, those that end but
// still serve (KEP-1669). The order is by address, so that equal input gives
// equal rules.
func usable(list []*proxy.Endpoint) []Endpoint {
	pick := func(keep func(*proxy.Endpoint) bool) []Endpoint {
		var out []Endpoint
		for _, e := range list {
			if keep(e) && isIPv4(e.GetIp()) {
				out = append(out, Endpoint{IP: e.GetIp(), Port: int(e.GetPort()), Local: e.GetLocal()})
			}
		}
		slices.SortFunc(out, func(a, b Endpoint) int {
			if c := strings.Compare(a.IP, b.IP); c != 0 {
				return c
			}
			return a.Port - b.Port
		})
		return slices.CompactFunc(out, func(a, b Endpoint) bool { return a.IP == b.IP && a.Port == b.Port })
	}
	if ready := pick((*proxy.Endpoint).GetReady); len(ready) > 0 {
		return ready
	}
	return pick(func(e *proxy.Endpoint) bool { return e.GetServing() && e.GetTerminating() })
}

func firstIPv4(list []string) string {
	for _, ip := range list {
		if isIPv4(ip) {
			return ip
		}
	}
	return ""
}

func ipv4(list []string) []string {
	var out []string
	for _, ip := range list {
		if isIPv4(ip) {
			out = append(out, ip)
		}
	}
	return out
}

func isIPv4(s string) bool {
	ip := net.ParseIP(s)
	return ip != nil && ip.To4() != nil
}
