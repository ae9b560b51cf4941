package gateway

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// route is an HTTPRoute or a GRPCRoute, in the words of the former.
type route struct {
	kind            gatewayv1.Kind
	namespace, name string
	uid             types.UID
	generation      int64
	created         time.Time
	refs            []gatewayv1.ParentReference
	hostnames       []string
	rules           []rule
	count           int // matches
	parents         []*parent
}

type rule struct {
	matches  []match
	filters  []gatewayv1.HTTPRouteFilter
	backends []gatewayv1.HTTPBackendRef
	timeouts *gatewayv1.HTTPRouteTimeouts
	// foreign is what the rule has that is not supported.
	foreign string
}

// match is one of HTTP; suffix is what the path ends with.
type match struct {
	gatewayv1.HTTPRouteMatch
	suffix string
}

// routesOf are the routes by age.
func routesOf(o *Objects) []*route {
	type entry struct {
		aged
		make func() *route
	}
	var all []entry
	for _, r := range o.HTTPRoutes {
		if r.DeletionTimestamp == nil {
			all = append(all, entry{r, func() *route { return ofHTTP(r) }})
		}
	}
	for _, r := range o.GRPCRoutes {
		if r.DeletionTimestamp == nil {
			all = append(all, entry{r, func() *route { return ofGRPC(r) }})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return older(a.aged, b.aged) })
	out := make([]*route, 0, len(all))
	for _, e := range all {
		out = append(out, e.make())
	}
	return out
}

func lower(names []gatewayv1.Hostname) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.ToLower(string(n)))
	}
	return out
}

func ofHTTP(r *gatewayv1.HTTPRoute) *route {
	out := &route{kind: httpRoute, namespace: r.Namespace, name: r.Name, uid: r.UID, generation: r.Generation, created: r.CreationTimestamp.Time, refs: r.Spec.ParentRefs, hostnames: lower(r.Spec.Hostnames)}
	for i := range r.Spec.Rules {
		from := &r.Spec.Rules[i]
		to := rule{filters: from.Filters, backends: from.BackendRefs, timeouts: from.Timeouts}
		switch {
		case from.Retry != nil:
			to.foreign = "retry"
		case from.SessionPersistence != nil:
			to.foreign = "sessionPersistence"
		}
		for _, m := range from.Matches {
			to.matches = append(to.matches, match{m, ""})
		}
		out.take(to)
	}
	return out
}

// places are the hosts of all listeners that the route is attached to.
func (r *route) places() int {
	n := 0
	for _, at := range r.parents {
		for _, a := range at.at {
			n += len(a.hosts)
		}
	}
	return n
}

func (r *route) take(to rule) {
	if len(to.matches) == 0 {
		to.matches = []match{{}}
	}
	r.count += len(to.matches)
	r.rules = append(r.rules, to)
}

func ofGRPC(r *gatewayv1.GRPCRoute) *route {
	out := &route{kind: grpcRoute, namespace: r.Namespace, name: r.Name, uid: r.UID, generation: r.Generation, created: r.CreationTimestamp.Time, refs: r.Spec.ParentRefs, hostnames: lower(r.Spec.Hostnames)}
	for i := range r.Spec.Rules {
		from := &r.Spec.Rules[i]
		to := rule{}
		if from.SessionPersistence != nil {
			to.foreign = "sessionPersistence"
		}
		for j := range from.Matches {
			to.matches = append(to.matches, ofCall(&from.Matches[j]))
		}
		to.filters = filtersOfGRPC(from.Filters)
		for _, b := range from.BackendRefs {
			to.backends = append(to.backends, gatewayv1.HTTPBackendRef{BackendRef: b.BackendRef, Filters: filtersOfGRPC(b.Filters)})
		}
		out.take(to)
	}
	if len(out.rules) == 0 {
		out.take(rule{})
	}
	return out
}

func filtersOfGRPC(all []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var out []gatewayv1.HTTPRouteFilter
	for _, f := range all {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}

// ofCall is a match of calls in the words of HTTP: gRPC sends them to /SERVICE/METHOD.
func ofCall(from *gatewayv1.GRPCRouteMatch) match {
	var out match
	for _, h := range from.Headers {
		out.Headers = append(out.Headers, gatewayv1.HTTPHeaderMatch{Type: (*gatewayv1.HeaderMatchType)(h.Type), Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value})
	}
	m := from.Method
	if m == nil {
		return out
	}
	service, method := ptr.Deref(m.Service, ""), ptr.Deref(m.Method, "")
	path := func(kind gatewayv1.PathMatchType, value string) *gatewayv1.HTTPPathMatch {
		return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}
	}
	switch {
	case ptr.Deref(m.Type, gatewayv1.GRPCMethodMatchExact) == gatewayv1.GRPCMethodMatchRegularExpression:
		element := func(pattern string) string {
			if pattern == "" {
				return "[^/]+"
			}
			return "(?:" + pattern + ")"
		}
		out.Path = path(gatewayv1.PathMatchRegularExpression, "/"+element(service)+"/"+element(method))
	case service != "" && method != "":
		out.Path = path(gatewayv1.PathMatchExact, "/"+service+"/"+method)
	case service != "":
		out.Path = path(gatewayv1.PathMatchPathPrefix, "/"+service)
	case method != "":
		out.suffix = "/" + method
	}
	return out
}
