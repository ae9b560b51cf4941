package serviceport

import (
	"net"
	"net/netip"
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
	Restricted      bool          // SourceRanges alone may use the load balancer's IPs
	SourceRanges    []string      // prefixes of the port's family
	Sticky          time.Duration // 0: no affinity
	ExternalLocal   bool          // traffic from outside goes to this node's endpoints only
	InternalLocal   bool          // so does traffic from inside
	HealthCheckPort int
	Cluster         []Endpoint // for the traffic policy Cluster; empty: no node has any
	Local           []Endpoint // for the traffic policy Local
}

// Internal returns the endpoints for traffic to the cluster IP.
func (p *Port) Internal() []Endpoint {
	if p.InternalLocal {
		return p.Local
	}
	return p.Cluster
}

// External returns the endpoints for traffic from outside the cluster.
func (p *Port) External() []Endpoint {
	if p.ExternalLocal {
		return p.Local
	}
	return p.Cluster
}

// Outward reports whether the port has an address for traffic from outside.
func (p *Port) Outward() bool {
	return p.NodePort > 0 || len(p.ExternalIPs) > 0 || len(p.LoadBalancerIPs) > 0
}

// Reachable returns every endpoint that some traffic may go to from this node.
func (p *Port) Reachable() []Endpoint {
	var out []Endpoint
	if !p.InternalLocal || p.Outward() {
		// Even where policy is Local, pods and the node itself reach an address
		// for outside by all endpoints.
		out = slices.Clone(p.Cluster)
	}
	if p.InternalLocal || p.ExternalLocal && p.Outward() {
		out = append(out, p.Local...)
	}
	return sorted(out)
}

// SamePath reports whether two ports differ in nothing but their endpoints:
// the comparison of requirement PUS-5, with the traffic policies that came since.
func (p *Port) SamePath(o *Port) bool {
	return p.ID == o.ID && p.ClusterIP == o.ClusterIP && p.Number == o.Number && p.NodePort == o.NodePort &&
		slices.Equal(p.ExternalIPs, o.ExternalIPs) && slices.Equal(p.LoadBalancerIPs, o.LoadBalancerIPs) &&
		p.Restricted == o.Restricted && slices.Equal(p.SourceRanges, o.SourceRanges) && p.Sticky == o.Sticky &&
		p.ExternalLocal == o.ExternalLocal && p.InternalLocal == o.InternalLocal && p.HealthCheckPort == o.HealthCheckPort
}

// Family is a family of addresses.
type Family int

// The families that services have addresses of.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Of returns the IPv4 ports of one service: see OfFamily.
func Of(s *proxy.State, name proxy.Name, node string) []*Port { return OfFamily(s, name, node, IPv4) }

// OfFamily returns the ports of one service as the node of that name sees them, with
// the addresses and endpoints of one family, in the order of its spec. Services that are
// gone, headless, external names or without a cluster IP of the family have none
// (requirement PUS-2).
func OfFamily(s *proxy.State, name proxy.Name, node string, family Family) []*Port {
	svc := s.Services[name]
	if svc == nil || svc.GetType() == "ExternalName" {
		return nil
	}
	ips := family.of(svc.GetClusterIps())
	if len(ips) == 0 {
		return nil
	}
	ports := make([]*Port, 0, len(svc.GetPorts()))
	for _, sp := range svc.GetPorts() {
		p := &Port{
			ID:              ID{Name: name, Port: sp.GetName(), Protocol: sp.GetProtocol()},
			ClusterIP:       ips[0],
			Number:          int(sp.GetPort()),
			NodePort:        int(sp.GetNodePort()),
			ExternalIPs:     family.of(svc.GetExternalIps()),
			LoadBalancerIPs: family.of(svc.GetLoadBalancerIps()),
			Restricted:      len(svc.GetLoadBalancerSourceRanges()) > 0,
			SourceRanges:    family.ranges(svc.GetLoadBalancerSourceRanges()),
			ExternalLocal:   svc.GetExternalTrafficPolicy() == "Local",
			InternalLocal:   svc.GetInternalTrafficPolicy() == "Local",
			HealthCheckPort: int(svc.GetHealthCheckNodePort()),
		}
		p.Cluster, p.Local = categorize(s.Of(name, sp), node, s.Node.GetZone(), family)
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

// Allows reports whether a client may use the load balancer's IPs.
func (p *Port) Allows(client string) bool {
	if !p.Restricted {
		return true
	}
	ip, err := netip.ParseAddr(client)
	return err == nil && slices.ContainsFunc(p.SourceRanges, func(s string) bool {
		prefix, err := netip.ParsePrefix(s)
		return err == nil && prefix.Contains(ip.Unmap())
	})
}

// ranges keeps the prefixes of the family. One that cannot be read lets no packet pass.
func (f Family) ranges(list []string) []string {
	var out []string
	for _, s := range list {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil && p.Addr().Is4() == (f == IPv4) {
			out = append(out, p.Masked().String())
		}
	}
	return out
}

// of keeps the addresses of the family. One that is written as IPv6 and means an IPv4
// address is of that family.
func (f Family) of(list []string) []string {
	var out []string
	for _, ip := range list {
		if f.has(ip) {
			out = append(out, ip)
		}
	}
	return out
}

func (f Family) has(s string) bool {
	ip := net.ParseIP(s)
	return ip != nil && (ip.To4() != nil) == (f == IPv4)
}
