package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// World answers which backends there are, and which namespace has a host.
type World struct {
	// Owns reports whether Gateways of a namespace have a host.
	Owns func(namespace, host string) bool
	// Backend is that of routes.Output.
	Backend func(payer, namespace, name string, port int32, grpc bool) (*routes.Backend, string)
	// MayRead counts a Secret among those that a namespace has read.
	MayRead func(payer string, s routes.SecretName) bool
	// Certificate returns what is wrong with a Secret; ready says that a certificate of it is
	// in use.
	Certificate func(routes.SecretName) (ready bool, err error)
}

type place struct {
	port      int32
	hostname  string
	namespace string
}

// Compile makes the listeners of a table, and what is to be said of all.
func (p *Prepared) Compile(w World) ([]*routes.Listener, Output) {
	out := Output{Gateways: map[types.UID]GatewayStatus{}, Routes: map[types.UID][]ParentStatus{}, Secrets: map[routes.SecretName]bool{}}
	for _, g := range p.gateways {
		for _, l := range g.listeners {
			p.readSecrets(l, w, out.Secrets)
			if l.usable() && l.hostname != "" && !w.Owns(g.Namespace, l.hostname) {
				l.conflict = faultf(string(gatewayv1.ListenerReasonHostnameConflict), "Another namespace has hostname %q", l.hostname)
			}
		}
	}
	made := map[place]*routes.Listener{}
	var all []*routes.Listener
	for _, g := range p.gateways {
		for _, l := range g.listeners {
			if !l.serves() {
				continue
			}
			at := place{l.Port, l.hostname, g.Namespace}
			if made[at] == nil {
				made[at] = &routes.Listener{Namespace: g.Namespace, Port: int(l.Port), Hostname: l.hostname}
				all = append(all, made[at])
			}
			for _, s := range l.secrets {
				if !slices.Contains(made[at].Secrets, s) {
					made[at].Secrets = append(made[at].Secrets, s)
				}
			}
		}
	}
	p.wildcards = wildcardsOf(p.routes)
	kinds := map[kindAt]*names{}
	for order, r := range p.routes {
		out.Routes[r.uid] = p.compile(r, order, w, made, kinds)
	}
	for _, g := range p.gateways {
		out.Gateways[g.UID] = p.statusOf(g)
	}
	return all, out
}

// serves reports whether requests come to the listener: by HTTPS with one certificate at
// least.
func (l *listener) serves() bool {
	return l.usable() && (l.Protocol != gatewayv1.HTTPSProtocolType || len(l.secrets) > 0)
}

// readSecrets has the certificates of a listener read, and says what is wrong with them.
func (p *Prepared) readSecrets(l *listener, w World, wanted map[routes.SecretName]bool) {
	if l.of.accepted != nil || l.refused != nil {
		return
	}
	var sound []routes.SecretName
	for _, s := range l.secrets {
		if !w.MayRead(l.of.Namespace, s) {
			l.unresolved = faultf(string(gatewayv1.ListenerReasonInvalidCertificateRef), "Secret %q is not read: the Gateways and Ingresses of the namespace name more than %d", s.Name, routes.MaxSecrets)
			continue
		}
		wanted[s] = true
		ready, err := w.Certificate(s)
		switch {
		case err != nil:
			l.unresolved = faultf(string(gatewayv1.ListenerReasonInvalidCertificateRef), "Secret %q: %v", s.Name, err)
			if !ready {
				continue // with nothing that was sound before
			}
		case !ready:
			l.pending = fmt.Sprintf("Secret %q was not read yet", s.Name)
		}
		sound = append(sound, s)
	}
	l.secrets = sound
}

// compile gives listeners the rules of a route, and returns what is said of it.
func (p *Prepared) compile(r *route, order int, w World, made map[place]*routes.Listener, kinds map[kindAt]*names) []ParentStatus {
	if len(r.parents) == 0 {
		return nil
	}
	attached := slices.ContainsFunc(r.parents, func(at *parent) bool { return at.refused == nil })
	var rules []*routes.Rule
	var unresolved *fault
	var err error
	if attached {
		rules, unresolved, err = p.rulesOf(r, order, w)
	}
	// What was not looked at to its end may have no fault; that is not said of it.
	looked := attached && (err == nil || unresolved != nil)
	if !attached && slices.ContainsFunc(r.parents, func(at *parent) bool { return !at.unseen }) {
		unresolved, looked = p.references(r, w)
	}
	for _, at := range r.parents {
		if at.refused != nil {
			continue
		}
		if err != nil {
			reason := string(gatewayv1.RouteReasonUnsupportedValue)
			if errors.Is(err, errIncompatible) {
				reason = string(gatewayv1.RouteReasonIncompatibleFilters)
			}
			at.refused = faultf(reason, "Not supported: %v", err)
			continue
		}
		p.give(r, at, rules, w, made, kinds)
	}
	var out []ParentStatus
	for _, at := range r.parents {
		out = append(out, ParentStatus{Ref: at.ref, Conditions: routeConditions(r, at, looked, unresolved)})
	}
	return out
}

// give attaches the rules of a route at the listeners of one parent.
func (p *Prepared) give(r *route, at *parent, rules []*routes.Rule, w World, made map[place]*routes.Listener, kinds map[kindAt]*names) {
	taken := 0
	for _, a := range at.at {
		where := place{a.to.Port, a.to.hostname, a.to.of.Namespace}
		var hosts []string
		for _, host := range a.hosts {
			if a.to.usable() && !w.Owns(a.to.of.Namespace, host) {
				at.leftOut = append(at.leftOut, host)
			} else {
				hosts = append(hosts, host)
			}
		}
		// Of two kinds with a host in common one is accepted, and not a part of the other.
		if slices.ContainsFunc(hosts, kinds[kindAt{where, other(r.kind)}].intersect) {
			at.conflict = true
			at.leftOut = append(at.leftOut, hosts...)
			continue
		}
		if len(hosts) == 0 {
			continue
		}
		mine := kinds[kindAt{where, r.kind}]
		if mine == nil {
			mine = &names{exact: map[string]bool{}, wild: map[string]bool{}, under: map[string]bool{}}
			kinds[kindAt{where, r.kind}] = mine
		}
		for _, host := range hosts {
			mine.add(host, p.wildcards)
			if l := made[where]; l != nil {
				l.Add(host, rules...)
			}
		}
		taken++
		a.to.attached++
	}
	slices.Sort(at.leftOut)
	at.leftOut = slices.Compact(at.leftOut)
	if taken == 0 {
		why := "another namespace has them"
		if at.conflict {
			why = "an older route of another kind, or another namespace, has them"
		}
		at.refused = faultf(string(gatewayv1.RouteReasonNotAllowedByListeners), "Hosts %s are not served for this route: %s", quoted(at.leftOut), why)
	}
}

// references looks at those of a route that no listener takes. looked is false where that would
// be too much of the namespace.
func (p *Prepared) references(r *route, w World) (unresolved *fault, looked bool) {
	for i := range r.rules {
		for j := range r.rules[i].backends {
			if p.looks[r.namespace]++; p.looks[r.namespace] > looksPerMatch*p.settings.MaxMatches {
				return unresolved, unresolved != nil
			}
			_, fault, err := p.backend(r, &r.rules[i].backends[j], w)
			if err != nil {
				return unresolved, unresolved != nil
			}
			unresolved = cmp.Or(unresolved, fault)
		}
	}
	return unresolved, true
}

func quoted(names []string) string {
	return fmt.Sprintf("%q", names)
}

var errIncompatible = errors.New("a redirect and a rewrite exclude each other")

// rulesOf makes the rules of a route. unresolved is a reference that leads nowhere.
func (p *Prepared) rulesOf(r *route, order int, w World) (out []*routes.Rule, unresolved *fault, err error) {
	for i := range r.rules {
		from := &r.rules[i]
		if from.foreign != "" {
			return nil, unresolved, unsupportedf("%s", from.foreign)
		}
		action := &routes.Action{Namespace: r.namespace}
		for j := range from.filters {
			if err := filter(action, &from.filters[j], from.matches); err != nil {
				return nil, unresolved, err
			}
		}
		if action.Redirect != nil && action.Rewrite != nil {
			return nil, unresolved, errIncompatible
		}
		if action.Timeout, err = timeoutOf(from.timeouts); err != nil {
			return nil, unresolved, err
		}
		for j := range from.backends {
			one, fault, err := p.backend(r, &from.backends[j], w)
			if err != nil {
				return nil, unresolved, err
			}
			unresolved = cmp.Or(unresolved, fault)
			action.To = append(action.To, one)
		}
		for j := range from.matches {
			rule, err := p.ruleOf(r, &from.matches[j])
			if err != nil {
				return nil, unresolved, err
			}
			rule.Order, rule.Action = order, action
			out = append(out, rule)
		}
	}
	return out, unresolved, nil
}

// backend resolves a reference. What it leads to is nil where it leads nowhere.
func (p *Prepared) backend(r *route, ref *gatewayv1.HTTPBackendRef, w World) (routes.Weighted, *fault, error) {
	out := routes.Weighted{Weight: ptr.Deref(ref.Weight, 1)}
	for i := range ref.Filters {
		var a routes.Action
		if f := &ref.Filters[i]; f.Type != gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.Type != gatewayv1.HTTPRouteFilterResponseHeaderModifier {
			return out, nil, unsupportedf("filter %s of a backend", f.Type)
		} else if err := filter(&a, f, nil); err != nil {
			return out, nil, err
		}
		out.Request, out.Response = append(out.Request, a.Request...), append(out.Response, a.Response...)
	}
	if group, kind := ptr.Deref(ref.Group, ""), ptr.Deref(ref.Kind, "Service"); group != "" || kind != "Service" {
		return out, faultf(string(gatewayv1.RouteReasonInvalidKind), "A backend has to be a Service, not %s", strings.Trim(string(kind)+"."+string(group), ".")), nil
	}
	namespace, name := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(r.namespace))), string(ref.Name)
	if !p.allowed.permit(gatewayv1.GroupName, r.kind, r.namespace, "", "Service", namespace, name) {
		return out, faultf(string(gatewayv1.RouteReasonRefNotPermitted), "No ReferenceGrant of namespace %q lets a %s of %q have the Service %q", namespace, r.kind, r.namespace, name), nil
	}
	to, reason := w.Backend(r.namespace, namespace, name, ptr.Deref(ref.Port, 0), r.kind == grpcRoute)
	switch reason {
	case "":
		out.Backend = to
		return out, nil, nil
	case routes.UnsupportedBackend:
		return out, faultf(string(gatewayv1.RouteReasonUnsupportedProtocol), "Service %q is of type ExternalName, which is not served", name), nil
	case routes.MissingServicePort:
		return out, faultf(string(gatewayv1.RouteReasonBackendNotFound), "Service %q has no TCP port %d", name, ptr.Deref(ref.Port, 0)), nil
	}
	return out, faultf(string(gatewayv1.RouteReasonBackendNotFound), "Service %q is not found", name), nil
}

func condition(kind string, generation int64, reason string, f *fault) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: generation, Reason: reason}
	if f != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, f.reason, f.message
	}
	return c
}

func routeConditions(r *route, at *parent, looked bool, unresolved *fault) []metav1.Condition {
	out := []metav1.Condition{condition(string(gatewayv1.RouteConditionAccepted), r.generation, string(gatewayv1.RouteReasonAccepted), at.refused)}
	if looked {
		out = append(out, condition(string(gatewayv1.RouteConditionResolvedRefs), r.generation, string(gatewayv1.RouteReasonResolvedRefs), unresolved))
	}
	if at.refused == nil && len(at.leftOut) > 0 {
		c := condition(string(gatewayv1.RouteConditionPartiallyInvalid), r.generation, string(gatewayv1.RouteReasonUnsupportedValue), nil)
		c.Message = "Hosts " + quoted(at.leftOut) + " are not served for this route: another namespace, or an older route of another kind, has them"
		out = append(out, c)
	}
	return out
}

// statusOf is what is said of a Gateway.
func (p *Prepared) statusOf(g *gateway) GatewayStatus {
	out := GatewayStatus{}
	good, bad := 0, 0
	for _, l := range g.listeners {
		s := ListenerStatus{Name: l.Name, Kinds: l.kinds, Attached: l.attached}
		refused := l.refused
		if refused == nil {
			refused = l.conflict
		}
		if g.accepted != nil && refused == nil {
			refused = &fault{string(gatewayv1.ListenerReasonPending), "The Gateway is not accepted"}
		}
		var notProgrammed *fault
		switch {
		case g.unusable != nil:
			notProgrammed = &fault{string(gatewayv1.ListenerReasonInvalid), "The addresses of the Gateway are not usable"}
		case !l.serves():
			notProgrammed = &fault{string(gatewayv1.ListenerReasonInvalid), "The listener is not valid: see its other conditions"}
		case l.pending != "":
			notProgrammed = &fault{string(gatewayv1.ListenerReasonPending), l.pending}
		}
		conflicted := metav1.Condition{Type: string(gatewayv1.ListenerConditionConflicted), Status: metav1.ConditionFalse, ObservedGeneration: g.Generation, Reason: string(gatewayv1.ListenerReasonNoConflicts)}
		if l.conflict != nil {
			conflicted.Status, conflicted.Reason, conflicted.Message = metav1.ConditionTrue, l.conflict.reason, l.conflict.message
		}
		s.Conditions = []metav1.Condition{
			condition(string(gatewayv1.ListenerConditionAccepted), g.Generation, string(gatewayv1.ListenerReasonAccepted), refused),
			condition(string(gatewayv1.ListenerConditionProgrammed), g.Generation, string(gatewayv1.ListenerReasonProgrammed), notProgrammed),
			condition(string(gatewayv1.ListenerConditionResolvedRefs), g.Generation, string(gatewayv1.ListenerReasonResolvedRefs), l.unresolved),
			conflicted,
		}
		if l.serves() {
			good++
		}
		if refused != nil {
			bad++
		}
		out.Listeners = append(out.Listeners, s)
	}
	accepted := condition(string(gatewayv1.GatewayConditionAccepted), g.Generation, string(gatewayv1.GatewayReasonAccepted), nil)
	switch {
	case g.accepted != nil:
		accepted.Status, accepted.Reason, accepted.Message = cmp.Or(g.accepted.Status, metav1.ConditionFalse), g.accepted.Reason, g.accepted.Message
	case bad > 0:
		accepted.Reason, accepted.Message = string(gatewayv1.GatewayReasonListenersNotValid), fmt.Sprintf("%d of %d listeners are not valid", bad, len(g.listeners))
		if bad == len(g.listeners) {
			accepted.Status = metav1.ConditionFalse
		}
	}
	accepted.Message = strings.TrimPrefix(accepted.Message+" "+mark, " ")
	var notProgrammed *fault
	if g.accepted == nil && g.unusable == nil {
		out.Addresses = p.settings.Addresses
	}
	switch {
	case accepted.Status == metav1.ConditionTrue && g.unusable != nil:
		notProgrammed = g.unusable
	case accepted.Status != metav1.ConditionTrue || good == 0:
		notProgrammed = &fault{string(gatewayv1.GatewayReasonInvalid), "No listener of the Gateway is served"}
	case len(out.Addresses) == 0:
		notProgrammed = faultf(string(gatewayv1.GatewayReasonAddressNotAssigned), "The machine has no address that is published")
	}
	out.Conditions = []metav1.Condition{accepted, condition(string(gatewayv1.GatewayConditionProgrammed), g.Generation, string(gatewayv1.GatewayReasonProgrammed), notProgrammed)}
	return out
}
