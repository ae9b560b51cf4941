package serviceport

import (
	"slices"
	"strings"

	"pintle.dev/pintle/sdk/proxy"
)

// categorize picks the endpoints for the traffic policies Cluster and Local.
// Each uses ready endpoints; where it has none, those that end but still serve
// (KEP-1669), each policy for itself, so that a node whose last endpoint is
// ending answers while others are ready elsewhere. Topology hints narrow the
// policy Cluster only. Each family of addresses is looked at by itself.
func categorize(list []*proxy.Endpoint, node, zone string, family Family) (cluster, local []Endpoint) {
	list = keep(list, func(e *proxy.Endpoint) bool { return family.has(e.GetIp()) })
	isReady := func(e *proxy.Endpoint) bool { return e.GetReady() }
	isEnding := func(e *proxy.Endpoint) bool { return e.GetServing() && e.GetTerminating() }
	isLocal := func(e *proxy.Endpoint) bool { return e.GetLocal() }
	ready := keep(list, isReady)
	if cluster = endpoints(keep(ready, preferred(ready, node, zone))); len(cluster) == 0 {
		cluster = endpoints(keep(list, isEnding))
	}
	if local = endpoints(keep(ready, isLocal)); len(local) == 0 {
		local = endpoints(keep(keep(list, isEnding), isLocal))
	}
	return cluster, local
}

// preferred says which of the ready endpoints the hints leave to this node: those
// for the node, else those for its zone. Hints count when every endpoint has one
// and at least one is for here; else all are left, so that no client is cut off by
// hints that are behind.
func preferred(ready []*proxy.Endpoint, node, zone string) func(*proxy.Endpoint) bool {
	for _, by := range []struct {
		here  string
		hints func(*proxy.Endpoint) []string
	}{{node, (*proxy.Endpoint).GetNodeHints}, {zone, (*proxy.Endpoint).GetZoneHints}} {
		isHere := func(e *proxy.Endpoint) bool { return by.here != "" && slices.Contains(by.hints(e), by.here) }
		hasNone := func(e *proxy.Endpoint) bool { return len(by.hints(e)) == 0 }
		if !slices.ContainsFunc(ready, hasNone) && slices.ContainsFunc(ready, isHere) {
			return isHere
		}
	}
	return func(*proxy.Endpoint) bool { return true }
}

func keep(list []*proxy.Endpoint, which func(*proxy.Endpoint) bool) []*proxy.Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e *proxy.Endpoint) bool { return !which(e) })
}

func endpoints(list []*proxy.Endpoint) []Endpoint {
	var out []Endpoint
	for _, e := range list {
		out = append(out, Endpoint{IP: e.GetIp(), Port: int(e.GetPort()), Local: e.GetLocal()})
	}
	return sorted(out)
}

// sorted orders endpoints by address, each once, so that equal input gives equal
// rules. It changes list.
func sorted(list []Endpoint) []Endpoint {
	slices.SortFunc(list, func(a, b Endpoint) int {
		if c := strings.Compare(a.IP, b.IP); c != 0 {
			return c
		}
		return a.Port - b.Port
	})
	return slices.CompactFunc(list, func(a, b Endpoint) bool { return a.IP == b.IP && a.Port == b.Port })
}
