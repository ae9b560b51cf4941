package iptables

import (
	"log/slog"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// flow names tracked UDP flows that point at an endpoint which is gone, or,
// with an empty Endpoint, that began when there was none. TCP flows end by
// themselves; UDP ones are kept alive by every packet and would never move.
type flow struct {
	IP       string // what the client sent to; empty with a node port
	Port     int
	Endpoint string
}

// staleFlows lists the flows to forget when old became now; either may be nil.
func staleFlows(old, now *serviceport.Port) []flow {
	var out []flow
	add := func(p *serviceport.Port, endpoint string) {
		out = append(out, flow{p.ClusterIP, p.Number, endpoint})
		for _, ip := range slices.Concat(p.ExternalIPs, p.LoadBalancerIPs) {
			out = append(out, flow{ip, p.Number, endpoint})
		}
		if p.NodePort > 0 {
			out = append(out, flow{"", p.NodePort, endpoint})
		}
	}
	if old != nil && old.Protocol == "UDP" {
		for _, e := range old.Reachable() {
			if now == nil || !slices.ContainsFunc(now.Reachable(), func(n serviceport.Endpoint) bool { return n.IP == e.IP && n.Port == e.Port }) {
				add(old, e.IP)
			}
		}
	}
	if now != nil && now.Protocol == "UDP" && len(now.Reachable()) > 0 && (old == nil || len(old.Reachable()) == 0) {
		add(now, "")
	}
	return out
}

// forgetFlows deletes flows from the kernel's table.
func forgetFlows(log *slog.Logger, gone []flow) {
	for _, f := range gone {
		filter := &netlink.ConntrackFilter{}
		err := filter.AddProtocol(unix.IPPROTO_UDP)
		if err == nil {
			err = filter.AddPort(netlink.ConntrackOrigDstPort, uint16(f.Port))
		}
		if err == nil && f.IP != "" {
			err = filter.AddIP(netlink.ConntrackOrigDstIP, net.ParseIP(f.IP))
		}
		if err == nil && f.Endpoint != "" {
			err = filter.AddIP(netlink.ConntrackReplySrcIP, net.ParseIP(f.Endpoint))
		}
		if err == nil {
			_, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, filter)
		}
		if err != nil {
			log.Warn("forgetting a UDP flow failed; it may reach an endpoint that is gone until it times out", "address", f.IP, "port", f.Port, "error", err)
		}
	}
}
