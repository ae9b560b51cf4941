package gateway

import (
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// kindAt is a kind of routes at the listeners of one place.
type kindAt struct {
	at   place
	kind gatewayv1.Kind
}

// names are hosts that routes of one kind have at a place. Of two kinds whose hosts
// intersect, the older route is served.
type names struct {
	all   bool            // a route is for all hosts
	exact map[string]bool // in full
	wild  map[string]bool // by what follows the star and its dot
	under map[string]bool // parents of hosts, as far as wildcards name them
}

// intersect reports whether requests for the host may be for one of these.
func (n *names) intersect(host string) bool {
	if n == nil {
		return false
	}
	if host == "" || n.all || n.exact[host] {
		return true
	}
	for _, parent, ok := strings.Cut(host, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
		if n.wild[parent] {
			return true
		}
	}
	parent, ok := strings.CutPrefix(host, "*.")
	return ok && n.under[parent]
}

// add takes a host. wildcards are those of all routes, by what follows the star and its dot.
func (n *names) add(host string, wildcards map[string]bool) {
	if host == "" {
		n.all = true
		return
	}
	name, wild := strings.CutPrefix(host, "*.")
	if wild {
		n.wild[name] = true
	} else {
		n.exact[name] = true
	}
	for _, parent, ok := strings.Cut(name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
		if wildcards[parent] {
			n.under[parent] = true
		}
	}
}

// wildcardsOf are those of all routes at all listeners.
func wildcardsOf(all []*route) map[string]bool {
	out := map[string]bool{}
	for _, r := range all {
		for _, at := range r.parents {
			for _, a := range at.at {
				for _, host := range a.hosts {
					if parent, ok := strings.CutPrefix(host, "*."); ok {
						out[parent] = true
					}
				}
			}
		}
	}
	return out
}

// other is the kind that does not share hosts with this one.
func other(kind gatewayv1.Kind) gatewayv1.Kind {
	if kind == httpRoute {
		return grpcRoute
	}
	return httpRoute
}
