package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/routes"
)

const (
	httpRoute = gatewayv1.Kind("HTTPRoute")
	grpcRoute = gatewayv1.Kind("GRPCRoute")
	// maxGateways of one namespace are served.
	maxGateways = 32
	// looksPerMatch is how many listeners, times hosts, the routes of a namespace may have
	// looked at for each match that they may have.
	looksPerMatch = 64
	// mark ends the message of the condition Accepted of each Gateway, whose status says by no
	// other field who wrote it.
	mark = "(" + Controller + ")"
	// maxAddresses are in one status, by the API.
	maxAddresses = 16
)

// Prepared is what was read of the objects before the hosts are given to namespaces.
type Prepared struct {
	// Claims are the hosts that are wanted, the oldest first.
	Claims []routes.Claim

	objects  *Objects
	settings Settings
	gateways []*gateway
	routes   []*route
	allowed  grants
	patterns map[string]int // of a namespace
	// wildcards of routes, by what follows the star and its dot.
	wildcards map[string]bool
	matches   map[string]int // of a namespace
	looks     map[string]int // of a namespace: listeners times hosts
}

type gateway struct {
	*gatewayv1.Gateway
	listeners []*listener
	accepted  *metav1.Condition // why not; without a status it is False
	unusable  *fault            // why its addresses are not
}

// listener is one of a Gateway while it is looked at.
type listener struct {
	*gatewayv1.Listener
	of       *gateway
	hostname string
	kinds    []gatewayv1.RouteGroupKind
	selector labels.Selector
	attached int32
	// Why it is not accepted, is in conflict, or has references that lead nowhere.
	refused, conflict, unresolved *fault
	pending                       string
	secrets                       []routes.SecretName
}

// fault is why a condition is not as one wants it.
type fault struct{ reason, message string }

func faultf(reason, format string, args ...any) *fault {
	return &fault{reason, fmt.Sprintf(format, args...)}
}

// attachment is a route at one listener, with the hosts that both are for.
type attachment struct {
	to    *listener
	hosts []string
}

type parent struct {
	ref      gatewayv1.ParentReference
	at       []attachment
	refused  *fault
	unseen   bool // refused before it was looked at
	leftOut  []string
	conflict bool
}

// Prepare reads objects.
func Prepare(o *Objects, s Settings) *Prepared {
	p := &Prepared{objects: o, settings: s, allowed: grantsOf(o.Grants), patterns: map[string]int{}, matches: map[string]int{}, looks: map[string]int{}}
	if p.settings.Patterns == nil {
		p.settings.Patterns = &Patterns{}
	}
	p.settings.Addresses = s.Addresses[:min(len(s.Addresses), maxAddresses)]
	classes := map[gatewayv1.ObjectName]*gatewayv1.GatewayClass{}
	for _, c := range o.Classes {
		classes[gatewayv1.ObjectName(c.Name)] = c
	}
	all := slices.Clone(o.Gateways)
	slices.SortFunc(all, func(a, b *gatewayv1.Gateway) int { return older(a, b) })
	count := map[string]int{}
	byName := map[types.NamespacedName]*gateway{}
	for _, g := range all {
		class := classes[g.Spec.GatewayClassName]
		if g.DeletionTimestamp != nil || class != nil && class.Spec.ControllerName != Controller || class == nil && !s.Before[g.UID] && !servedBefore(g) {
			continue
		}
		prepared := &gateway{Gateway: g}
		if class == nil {
			prepared.accepted = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: string(gatewayv1.GatewayReasonPending), Message: fmt.Sprintf("There is no GatewayClass %q any more", g.Spec.GatewayClassName)}
			p.gateways = append(p.gateways, prepared)
			continue
		}
		if class.Spec.ParametersRef != nil {
			prepared.accepted = &metav1.Condition{Reason: string(gatewayv1.GatewayReasonInvalidParameters), Message: fmt.Sprintf("GatewayClass %q is not accepted: see its conditions", class.Name)}
		} else if count[g.Namespace]++; count[g.Namespace] > maxGateways {
			prepared.accepted = &metav1.Condition{Reason: string(gatewayv1.GatewayReasonInvalid), Message: fmt.Sprintf("The namespace has more than %d Gateways", maxGateways)}
		} else {
			p.prepare(prepared)
		}
		p.gateways = append(p.gateways, prepared)
		byName[types.NamespacedName{Namespace: g.Namespace, Name: g.Name}] = prepared
	}
	p.routes = routesOf(o)
	for _, r := range p.routes {
		p.attach(r, byName)
	}
	slices.SortStableFunc(p.Claims, func(a, b routes.Claim) int { return a.Since.Compare(b.Since) })
	return p
}

// servedBefore reports whether the status of a Gateway was written by this controller: its
// class may have gone while no process ran.
func servedBefore(g *gatewayv1.Gateway) bool {
	c := meta.FindStatusCondition(g.Status.Conditions, string(gatewayv1.GatewayConditionAccepted))
	return c != nil && strings.HasSuffix(c.Message, mark)
}

type aged interface {
	GetCreationTimestamp() metav1.Time
	GetNamespace() string
	GetName() string
}

func older(a, b aged) int {
	at := b.GetCreationTimestamp()
	return cmp.Or(ptr.To(a.GetCreationTimestamp()).Compare(at.Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// prepare looks at the listeners of a Gateway, and claims their hosts.
func (p *Prepared) prepare(g *gateway) {
	if g.Spec.Infrastructure != nil && g.Spec.Infrastructure.ParametersRef != nil {
		g.accepted = &metav1.Condition{Reason: string(gatewayv1.GatewayReasonInvalidParameters), Message: "spec.infrastructure.parametersRef is not supported"}
	}
	for _, a := range g.Spec.Addresses {
		if a.Type != nil && *a.Type != gatewayv1.IPAddressType {
			g.accepted = &metav1.Condition{Reason: string(gatewayv1.GatewayReasonUnsupportedAddress), Message: "Addresses of spec.addresses have to be of type IPAddress"}
		}
	}
	g.unusable = p.unusable(g)
	type place struct {
		port int32
		host string
	}
	taken, protocols := map[place]*listener{}, map[int32]gatewayv1.ProtocolType{}
	for i := range g.Spec.Listeners {
		l := &listener{Listener: &g.Spec.Listeners[i], of: g}
		l.hostname = strings.ToLower(string(ptr.Deref(l.Hostname, "")))
		g.listeners = append(g.listeners, l)
		p.check(l)
		at := place{l.Port, l.hostname}
		if other, ok := protocols[l.Port]; ok && other != l.Protocol {
			l.conflict = faultf(string(gatewayv1.ListenerReasonProtocolConflict), "Another listener has port %d with protocol %s", l.Port, other)
		} else if first := taken[at]; first != nil {
			l.conflict = faultf(string(gatewayv1.ListenerReasonHostnameConflict), "Listener %q has the same port and hostname", first.Name)
		} else {
			taken[at], protocols[l.Port] = l, l.Protocol
		}
		if l.hostname != "" && l.usable() {
			p.Claims = append(p.Claims, routes.Claim{Host: l.hostname, Namespace: g.Namespace, Since: g.CreationTimestamp.Time})
		}
	}
}

// unusable says why the addresses that a Gateway asks for are not those where it would be
// served. The listeners of the plugin are for all of them, so it cannot have a part.
func (p *Prepared) unusable(g *gateway) *fault {
	asked, rest := map[netip.Addr]bool{}, len(g.Spec.Addresses) == 0
	there := map[netip.Addr]bool{}
	for _, text := range p.settings.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			there[a.Unmap()] = true
		}
	}
	for _, a := range g.Spec.Addresses {
		if a.Value == "" {
			rest = true // any that there are
			continue
		}
		at, err := netip.ParseAddr(a.Value)
		if err != nil || !there[at.Unmap()] {
			return faultf(string(gatewayv1.GatewayReasonAddressNotUsable), "The machine has no address %q, or it is not published", a.Value)
		}
		asked[at.Unmap()] = true
	}
	if !rest && len(asked) < len(there) {
		return faultf(string(gatewayv1.GatewayReasonAddressNotUsable), "A Gateway is served at all addresses of the machine: spec.addresses has to name each of them, or none")
	}
	return nil
}

// usable reports whether routes at the listener may be served.
func (l *listener) usable() bool {
	return l.of.accepted == nil && l.of.unusable == nil && l.refused == nil && l.conflict == nil
}

// check looks at what a listener wants.
func (p *Prepared) check(l *listener) {
	ports := p.settings.HTTPPorts
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType:
	case gatewayv1.HTTPSProtocolType:
		ports = p.settings.HTTPSPorts
		p.checkTLS(l)
	default:
		l.refused = faultf(string(gatewayv1.ListenerReasonUnsupportedProtocol), "Protocol %q is not supported: want HTTP or HTTPS", l.Protocol)
	}
	if l.refused == nil && !ports[int(l.Port)] {
		l.refused = faultf(string(gatewayv1.ListenerReasonPortUnavailable), "The plugin ingress does not listen at port %d for %s: its settings httpAddresses and httpsAddresses say where", l.Port, l.Protocol)
	}
	p.checkKinds(l)
	if l.AllowedRoutes == nil || l.AllowedRoutes.Namespaces == nil || ptr.Deref(l.AllowedRoutes.Namespaces.From, "") != gatewayv1.NamespacesFromSelector {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(l.AllowedRoutes.Namespaces.Selector)
	if err != nil {
		l.refused = faultf(string(gatewayv1.ListenerReasonUnsupportedValue), "allowedRoutes.namespaces.selector: %v", err)
		return
	}
	l.selector = selector
}

func (p *Prepared) checkTLS(l *listener) {
	switch {
	case l.TLS == nil || len(l.TLS.CertificateRefs) == 0:
		l.unresolved = faultf(string(gatewayv1.ListenerReasonInvalidCertificateRef), "tls.certificateRefs names no Secret")
		return
	case ptr.Deref(l.TLS.Mode, gatewayv1.TLSModeTerminate) != gatewayv1.TLSModeTerminate:
		l.refused = faultf(string(gatewayv1.ListenerReasonUnsupportedValue), "tls.mode %q is not supported", *l.TLS.Mode)
	case len(l.TLS.Options) > 0:
		l.refused = faultf(string(gatewayv1.ListenerReasonUnsupportedValue), "tls.options are not supported")
	case l.of.Spec.TLS != nil:
		// To ignore it would let in clients that have to show a certificate.
		l.refused = faultf(string(gatewayv1.ListenerReasonUnsupportedValue), "spec.tls of the Gateway is not supported")
	}
	for _, ref := range l.TLS.CertificateRefs {
		group, kind := string(ptr.Deref(ref.Group, "")), string(ptr.Deref(ref.Kind, "Secret"))
		name := routes.SecretName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(l.of.Namespace))), Name: string(ref.Name)}
		switch {
		case group != "" || kind != "Secret":
			l.unresolved = faultf(string(gatewayv1.ListenerReasonInvalidCertificateRef), "A certificate has to be a Secret, not %s.%s", kind, group)
		case !p.allowed.permit(gatewayv1.GroupName, "Gateway", l.of.Namespace, "", "Secret", name.Namespace, name.Name):
			l.unresolved = faultf(string(gatewayv1.ListenerReasonRefNotPermitted), "No ReferenceGrant of namespace %q lets Gateways of %q have the Secret %q", name.Namespace, l.of.Namespace, name.Name)
		default:
			l.secrets = append(l.secrets, name)
		}
	}
}

func (p *Prepared) checkKinds(l *listener) {
	own := []gatewayv1.RouteGroupKind{{Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)), Kind: httpRoute}, {Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)), Kind: grpcRoute}}
	l.kinds = []gatewayv1.RouteGroupKind{}
	if l.Protocol != gatewayv1.HTTPProtocolType && l.Protocol != gatewayv1.HTTPSProtocolType {
		return
	}
	if l.AllowedRoutes == nil || len(l.AllowedRoutes.Kinds) == 0 {
		l.kinds = own
		return
	}
	for _, k := range l.AllowedRoutes.Kinds {
		i := slices.IndexFunc(own, func(o gatewayv1.RouteGroupKind) bool {
			return o.Kind == k.Kind && *o.Group == ptr.Deref(k.Group, gatewayv1.GroupName)
		})
		if i < 0 {
			l.unresolved = faultf(string(gatewayv1.ListenerReasonInvalidRouteKinds), "Routes of kind %q are not supported", k.Kind)
			continue
		}
		if !slices.ContainsFunc(l.kinds, func(o gatewayv1.RouteGroupKind) bool { return o.Kind == k.Kind }) {
			l.kinds = append(l.kinds, own[i])
		}
	}
}

// allows reports whether routes of a kind and a namespace may be attached.
func (p *Prepared) allows(l *listener, kind gatewayv1.Kind, namespace string) bool {
	if !slices.ContainsFunc(l.kinds, func(k gatewayv1.RouteGroupKind) bool { return k.Kind == kind }) {
		return false
	}
	from := gatewayv1.NamespacesFromSame
	if l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil {
		from = ptr.Deref(l.AllowedRoutes.Namespaces.From, from)
	}
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == l.of.Namespace
	case gatewayv1.NamespacesFromSelector:
		of, ok := p.objects.Namespaces[namespace]
		return ok && l.selector != nil && l.selector.Matches(labels.Set(of))
	}
	return false
}

// attach finds the listeners of a route, and claims its hosts for their Gateways.
func (p *Prepared) attach(r *route, gateways map[types.NamespacedName]*gateway) {
	cost := max(len(r.hostnames), 1) * max(r.count, 1)
	for i := range r.refs {
		ref := &r.refs[i]
		if ptr.Deref(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName || ptr.Deref(ref.Kind, "Gateway") != "Gateway" {
			continue
		}
		g := gateways[types.NamespacedName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(r.namespace))), Name: string(ref.Name)}]
		if g == nil {
			continue // of another controller, or not there
		}
		at := &parent{ref: *ref}
		r.parents = append(r.parents, at)
		if p.looks[r.namespace] += len(g.listeners) * max(len(r.hostnames), 1); p.matches[r.namespace] > p.settings.MaxMatches || p.looks[r.namespace] > looksPerMatch*p.settings.MaxMatches {
			at.unseen = true
			at.refused = faultf(string(gatewayv1.RouteReasonUnsupportedValue), "The route is not looked at: those of the namespace have more than %d matches, hosts times matches at each listener, or name listeners with %d times as many", p.settings.MaxMatches, looksPerMatch)
			continue
		}
		if p.attachTo(r, g, at); len(at.at) == 0 {
			continue
		}
		if p.matches[r.namespace] += cost * len(at.at); p.matches[r.namespace] > p.settings.MaxMatches {
			at.unseen = true
			at.at, at.refused = nil, faultf(string(gatewayv1.RouteReasonUnsupportedValue), "The routes of the namespace have more than %d matches: hosts times matches, at each listener", p.settings.MaxMatches)
			continue
		}
		since := g.CreationTimestamp.Time
		if r.created.After(since) {
			since = r.created
		}
		for _, a := range at.at {
			for _, host := range a.hosts {
				if a.to.usable() {
					p.Claims = append(p.Claims, routes.Claim{Host: host, Namespace: g.Namespace, Since: since})
				}
			}
		}
	}
}

func (p *Prepared) attachTo(r *route, g *gateway, at *parent) {
	if g.listeners == nil {
		at.refused = faultf(string(gatewayv1.RouteReasonNoMatchingParent), "The Gateway is not accepted: see its conditions")
		return
	}
	at.refused = faultf(string(gatewayv1.RouteReasonNoMatchingParent), "The Gateway has no listener with the section name and the port of the reference")
	allowed := false
	for _, l := range g.listeners {
		if at.ref.SectionName != nil && *at.ref.SectionName != l.Name || at.ref.Port != nil && *at.ref.Port != l.Port {
			continue
		}
		if !p.allows(l, r.kind, r.namespace) {
			if !allowed {
				at.refused = faultf(string(gatewayv1.RouteReasonNotAllowedByListeners), "No listener of the Gateway allows a %s of this namespace", r.kind)
			}
			continue
		}
		allowed = true
		hosts := common(l.hostname, r.hostnames)
		if len(hosts) == 0 {
			if len(at.at) == 0 {
				at.refused = faultf(string(gatewayv1.RouteReasonNoMatchingListenerHostname), "No listener of the Gateway has one of the route's hostnames")
			}
			continue
		}
		at.at = append(at.at, attachment{l, hosts})
	}
	if len(at.at) > 0 {
		at.refused = nil
	}
}

// common are the hosts that a listener and a route are both for.
func common(of string, names []string) []string {
	if len(names) == 0 {
		return []string{of}
	}
	var out []string
	for _, name := range names {
		switch {
		case of == "" || below(name, of):
			out = append(out, name)
		case below(of, name):
			out = append(out, of)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// below reports whether a name is another, or one below it where that is a wildcard.
func below(name, other string) bool {
	if name == other {
		return true
	}
	suffix, ok := strings.CutPrefix(other, "*")
	return ok && len(name) > len(suffix) && strings.HasSuffix(name, suffix)
}
