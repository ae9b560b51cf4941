package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// world is a cluster as the tests write it.
type world struct {
	Objects
	ingresses []*networkingv1.Ingress
	owners    map[string]string
	most      int
	secrets   map[string]error // those that are read
	unread    map[string]bool
	clock     int64
	patterns  Patterns
	addresses []string
	before    map[types.UID]bool
}

func newWorld() *world {
	w := &world{most: 1000, addresses: []string{"192.0.2.1"}, secrets: map[string]error{}, unread: map[string]bool{}}
	w.Namespaces = map[string]map[string]string{"infra": {}, "shop": {"team": "shop"}, "mallory": {}}
	w.Classes = []*gatewayv1.GatewayClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "pintle"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: Controller}},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "example.com/other"}},
	}
	return w
}

// meta is that of NAMESPACE/NAME, younger than all before.
func (w *world) meta(name string) metav1.ObjectMeta {
	w.clock++
	ns, n, _ := strings.Cut(name, "/")
	return metav1.ObjectMeta{Namespace: ns, Name: n, UID: types.UID(name), Generation: 3, CreationTimestamp: metav1.NewTime(time.Unix(w.clock, 0))}
}

func parse[T any](t testing.TB, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) gateway(t testing.TB, name, listeners string) *gatewayv1.Gateway {
	t.Helper()
	g := &gatewayv1.Gateway{ObjectMeta: w.meta(name), Spec: parse[gatewayv1.GatewaySpec](t, "{gatewayClassName: pintle, listeners: ["+listeners+"]}")}
	w.Gateways = append(w.Gateways, g)
	return g
}

func (w *world) http(t testing.TB, name, spec string) {
	t.Helper()
	w.HTTPRoutes = append(w.HTTPRoutes, &gatewayv1.HTTPRoute{ObjectMeta: w.meta(name), Spec: parse[gatewayv1.HTTPRouteSpec](t, spec)})
}

func (w *world) grpc(t testing.TB, name, spec string) {
	t.Helper()
	w.GRPCRoutes = append(w.GRPCRoutes, &gatewayv1.GRPCRoute{ObjectMeta: w.meta(name), Spec: parse[gatewayv1.GRPCRouteSpec](t, spec)})
}

// compiled is what a world is made into.
type compiled struct {
	Output
	table *routes.Table
}

func (w *world) compile() compiled {
	p := Prepare(&w.Objects, Settings{HTTPPorts: map[int]bool{80: true, 8080: true}, HTTPSPorts: map[int]bool{443: true}, Addresses: w.addresses, Before: w.before, MaxMatches: w.most, Patterns: &w.patterns})
	out := routes.Compile(routes.Input{
		Ingresses: w.ingresses, Owners: w.owners, MaxPaths: 1000, Claims: p.Claims,
		Service: func(namespace, name string) *corev1.Service {
			if strings.HasPrefix(name, "no-") {
				return nil
			}
			s := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			if name == "external" {
				s.Spec.Type = corev1.ServiceTypeExternalName
			}
			return s
		},
		Slices: func(string, string) []*discoveryv1.EndpointSlice { return nil },
	})
	listeners, told := p.Compile(World{
		Owns: out.Table.Owns, Backend: out.Backend, MayRead: out.MayRead,
		Certificate: func(s routes.SecretName) (bool, error) {
			err, ok := w.secrets[s.Namespace+"/"+s.Name]
			if w.unread[s.Namespace+"/"+s.Name] {
				return false, nil
			}
			if !ok {
				err = errors.New("is not found")
			}
			return err == nil, err
		},
	})
	out.Table.Attach(listeners)
	return compiled{told, out.Table}
}

// leads says where "METHOD PORT HOST/PATH?QUERY NAME=VALUE …" leads: the Service, or the
// status that is answered.
func (c *compiled) leads(text string) string {
	f := strings.Fields(text)
	q := &routes.Request{Method: f[0], Header: http.Header{}}
	fmt.Sscan(f[1], &q.Port)
	url, query, _ := strings.Cut(f[2], "?")
	host, path, _ := strings.Cut(url, "/")
	q.Host, q.Path, q.RawQuery = host, "/"+path, query
	for _, h := range f[3:] {
		name, value, _ := strings.Cut(h, "=")
		q.Header.Add(name, value)
	}
	r := c.table.Route(q)
	switch {
	case r == nil:
		return "404"
	case r.Action.Redirect != nil:
		return fmt.Sprint(r.Action.Redirect.Status)
	}
	to := r.Action.Draw()
	if to == nil || to.Backend == nil {
		return "500"
	}
	return to.Backend.Namespace + "/" + to.Backend.Service
}

func (c *compiled) check(t *testing.T, want map[string]string) {
	t.Helper()
	for request, to := range want {
		if got := c.leads(request); got != to {
			t.Errorf("%s leads to %s, want %s", request, got, to)
		}
	}
}

func said(all []metav1.Condition, kind string) string {
	for _, c := range all {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

// route is what is said of the first parent of a route: Accepted and ResolvedRefs.
func (c *compiled) route(name string) string {
	all := c.Routes[types.UID(name)]
	if len(all) == 0 {
		return ""
	}
	return said(all[0].Conditions, "Accepted") + " " + said(all[0].Conditions, "ResolvedRefs")
}

const accepted = "True/Accepted True/ResolvedRefs"

const anyHost = `{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}`

// TestPrecedence is the specification's order of matches (4-21.1).
func TestPrecedence(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	to := func(name string) string { return "backendRefs: [{name: " + name + ", port: 80}]" }
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test], rules: [
		{`+to("all")+`},
		{matches: [{path: {type: PathPrefix, value: /long/path}}], `+to("long")+`},
		{matches: [{path: {type: PathPrefix, value: /long}}], `+to("short")+`},
		{matches: [{path: {type: Exact, value: /long}}], `+to("exact")+`},
		{matches: [{path: {type: PathPrefix, value: /m}, headers: [{name: X-A, value: "1"}]}], `+to("one")+`},
		{matches: [{path: {type: PathPrefix, value: /m}, headers: [{name: x-a, value: "1"}, {name: X-B, value: "2"}]}], `+to("two")+`},
		{matches: [{path: {type: PathPrefix, value: /m}, method: POST}], `+to("post")+`},
		{matches: [{path: {type: PathPrefix, value: /m}, queryParams: [{name: q, value: x}]}], `+to("query")+`},
		{matches: [{path: {type: RegularExpression, value: "/r/[0-9]+"}}], `+to("regex")+`},
		{matches: [{headers: [{name: X-R, value: "v[12]", type: RegularExpression}]}], `+to("header-regex")+`},
		{matches: [{path: {value: /same}}], `+to("first")+`}, {matches: [{path: {value: /same}}], `+to("second")+`}]}`)
	w.http(t, "shop/b", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test, "*.w.test", "*.x.w.test"], rules: [
		{matches: [{path: {value: /same}}], `+to("younger")+`}, {matches: [{path: {value: /only-b}}], `+to("b")+`}]}`)
	w.http(t, "shop/every", `{parentRefs: [{name: edge, namespace: infra}], rules: [{matches: [{path: {value: /every}}], `+to("every")+`}]}`)
	c := w.compile()
	for _, name := range []string{"shop/a", "shop/b", "shop/every"} {
		if got := c.route(name); got != accepted {
			t.Errorf("%s: %s", name, got)
		}
	}
	c.check(t, map[string]string{
		"GET 80 a.test/":                                           "shop/all",
		"GET 80 a.test/long":                                       "shop/exact",
		"GET 80 a.test/long/":                                      "shop/short",
		"GET 80 a.test/longer":                                     "shop/all",
		"GET 80 a.test/long/path/x":                                "shop/long",
		"GET 80 a.test/x/../long":                                  "shop/exact",
		"GET 80 a.test/m X-A=1":                                    "shop/one",
		"GET 80 a.test/m X-A=1 X-B=2":                              "shop/two",
		"POST 80 a.test/m X-A=1 X-B=2":                             "shop/post",
		"GET 80 a.test/m?q=x":                                      "shop/query",
		"GET 80 a.test/m?q=x&q=y X-A=1":                            "shop/one",
		"GET 80 a.test/m?q=y&q=x":                                  "shop/all",
		"GET 80 a.test/r/12":                                       "shop/regex",
		"GET 80 a.test/r/12x":                                      "shop/all",
		"GET 80 a.test/q X-R=v2":                                   "shop/header-regex",
		"GET 80 a.test/q X-R=v3":                                   "shop/all",
		"GET 80 a.test/q X-R=v1 X-R=v2":                            "shop/all",
		"GET 80 a.test/same":                                       "shop/first",
		"GET 80 a.test/only-b":                                     "shop/b",
		"GET 80 one.w.test/only-b":                                 "shop/b",
		"GET 80 two.one.w.test/only-b":                             "shop/b",
		"GET 80 w.test/only-b":                                     "404",
		"GET 80 one.w.test/every":                                  "shop/every",
		"GET 80 nobody.test/every":                                 "shop/every",
		"GET 80 nobody.test/":                                      "404",
		"GET 8080 a.test/":                                         "404",
		"GET 443 a.test/":                                          "404",
		"GET 80 " + strings.Repeat("a.", 30_000) + "w.test/only-b": "404",
	})
}

// TestListeners: what is said of listeners and their Gateway, with the API's reasons.
func TestListeners(t *testing.T) {
	for name, c := range map[string]struct {
		listeners string
		want      string // of the last listener: Accepted, Programmed, ResolvedRefs, Conflicted; of the Gateway: Accepted, Programmed
	}{
		"HTTP":          {`{name: a, port: 80, protocol: HTTP}`, "True/Accepted True/Programmed True/ResolvedRefs False/NoConflicts; True/Accepted True/Programmed"},
		"another port":  {`{name: a, port: 81, protocol: HTTP}`, "False/PortUnavailable False/Invalid True/ResolvedRefs False/NoConflicts; False/ListenersNotValid False/Invalid"},
		"HTTP at HTTPS": {`{name: a, port: 443, protocol: HTTP}`, "False/PortUnavailable False/Invalid True/ResolvedRefs False/NoConflicts; False/ListenersNotValid False/Invalid"},
		"one of two":    {`{name: a, port: 80, protocol: HTTP}, {name: b, port: 22, protocol: HTTP}`, "False/PortUnavailable False/Invalid True/ResolvedRefs False/NoConflicts; True/ListenersNotValid True/Programmed"},
		"TCP":           {`{name: a, port: 80, protocol: TCP}`, "False/UnsupportedProtocol False/Invalid True/ResolvedRefs False/NoConflicts; False/ListenersNotValid False/Invalid"},
		"hostnames":     {`{name: a, port: 80, protocol: HTTP, hostname: A.test}, {name: b, port: 80, protocol: HTTP, hostname: a.test}`, "False/HostnameConflict False/Invalid True/ResolvedRefs True/HostnameConflict; True/ListenersNotValid True/Programmed"},
		"protocols":     {`{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTPS, tls: {certificateRefs: [{name: good}]}}`, "False/PortUnavailable False/Invalid True/ResolvedRefs True/ProtocolConflict; True/ListenersNotValid True/Programmed"},
		"kinds":         {`{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: HTTPRoute}]}}`, "True/Accepted True/Programmed False/InvalidRouteKinds False/NoConflicts; True/Accepted True/Programmed"},
		"HTTPS":         {`{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good}]}}`, "True/Accepted True/Programmed True/ResolvedRefs False/NoConflicts; True/Accepted True/Programmed"},
		"not read yet":  {`{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: slow}]}}`, "True/Accepted False/Pending True/ResolvedRefs False/NoConflicts; True/Accepted True/Programmed"},
		"no Secret":     {`{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}`, "True/Accepted False/Invalid False/InvalidCertificateRef False/NoConflicts; True/Accepted False/Invalid"},
		"no reference":  {`{name: a, port: 443, protocol: HTTPS}`, "True/Accepted False/Invalid False/InvalidCertificateRef False/NoConflicts; True/Accepted False/Invalid"},
		"a ConfigMap":   {`{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{kind: ConfigMap, name: good}]}}`, "True/Accepted False/Invalid False/InvalidCertificateRef False/NoConflicts; True/Accepted False/Invalid"},
		"others'":       {`{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good, namespace: mallory}]}}`, "True/Accepted False/Invalid False/RefNotPermitted False/NoConflicts; True/Accepted False/Invalid"},
		"granted":       {`{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good, namespace: shop}]}}`, "True/Accepted True/Programmed True/ResolvedRefs False/NoConflicts; True/Accepted True/Programmed"},
		"passthrough":   {`{name: a, port: 443, protocol: HTTPS, tls: {mode: Passthrough, certificateRefs: [{name: good}]}}`, "False/UnsupportedValue False/Invalid True/ResolvedRefs False/NoConflicts; False/ListenersNotValid False/Invalid"},
	} {
		w := newWorld()
		w.secrets["infra/good"], w.secrets["shop/good"], w.secrets["mallory/good"], w.unread["infra/slow"] = nil, nil, nil, true
		w.Grants = []Grant{{"shop", parse[gatewayv1.ReferenceGrantSpec](t, `{from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}], to: [{group: "", kind: Secret, name: good}]}`)}}
		w.gateway(t, "infra/edge", c.listeners)
		s := w.compile().Gateways["infra/edge"]
		l := s.Listeners[len(s.Listeners)-1].Conditions
		got := strings.Join([]string{said(l, "Accepted"), said(l, "Programmed"), said(l, "ResolvedRefs"), said(l, "Conflicted")}, " ") + "; " + said(s.Conditions, "Accepted") + " " + said(s.Conditions, "Programmed")
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		for _, condition := range append(l, s.Conditions...) {
			if condition.ObservedGeneration != 3 {
				t.Errorf("%s: %s is of generation %d", name, condition.Type, condition.ObservedGeneration)
			}
		}
	}
}

// TestGateways: classes, addresses and what a Gateway may not ask for.
func TestGateways(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/others", anyHost).Spec.GatewayClassName = "other"
	w.gateway(t, "infra/nowhere", anyHost).Spec.Addresses = parse[[]gatewayv1.GatewaySpecAddress](t, `[{value: 198.51.100.1}]`)
	w.gateway(t, "infra/named", anyHost).Spec.Addresses = parse[[]gatewayv1.GatewaySpecAddress](t, `[{type: Hostname, value: a.test}]`)
	w.gateway(t, "infra/here", anyHost).Spec.Addresses = parse[[]gatewayv1.GatewaySpecAddress](t, `[{value: 192.0.2.1}]`)
	w.gateway(t, "infra/parameters", anyHost).Spec.Infrastructure = parse[*gatewayv1.GatewayInfrastructure](t, `{parametersRef: {group: "", kind: ConfigMap, name: a}}`)
	client := w.gateway(t, "infra/clients", `{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good}]}}`)
	client.Spec.TLS = parse[*gatewayv1.GatewayTLSConfig](t, `{frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}}`)
	w.secrets["infra/good"] = nil
	c := w.compile()
	if _, ok := c.Gateways["infra/others"]; ok {
		t.Error("a Gateway of another controller has a status")
	}
	for name, want := range map[string]string{
		"infra/nowhere": "True/Accepted False/AddressNotUsable", "infra/named": "False/UnsupportedAddress False/Invalid",
		"infra/here": "True/Accepted True/Programmed", "infra/parameters": "False/InvalidParameters False/Invalid",
		"infra/clients": "False/ListenersNotValid False/Invalid", // clients would be let in without a certificate
	} {
		s := c.Gateways[types.UID(name)]
		if got := said(s.Conditions, "Accepted") + " " + said(s.Conditions, "Programmed"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := c.Gateways["infra/here"].Addresses; !slices.Equal(got, []string{"192.0.2.1"}) {
		t.Errorf("addresses %v", got)
	}
}

// TestAttachment: which route is attached where, and why not.
func TestAttachment(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", `{name: same, port: 80, protocol: HTTP, hostname: same.test},
		{name: team, port: 80, protocol: HTTP, hostname: "*.team.test", allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: shop}}}}},
		{name: calls, port: 8080, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}], namespaces: {from: All}}},
		{name: none, port: 8080, protocol: HTTP, hostname: none.test, allowedRoutes: {namespaces: {from: None}}}`)
	rules := `rules: [{backendRefs: [{name: web, port: 80}]}]`
	for name, c := range map[string]struct{ spec, want string }{
		"infra/home":      {`{parentRefs: [{name: edge}], hostnames: [same.test], ` + rules + `}`, accepted},
		"mallory/same":    {`{parentRefs: [{name: edge, namespace: infra, sectionName: same}], hostnames: [same.test], ` + rules + `}`, "False/NotAllowedByListeners True/ResolvedRefs"},
		"shop/team":       {`{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.team.test], ` + rules + `}`, accepted},
		"mallory/team":    {`{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.team.test], ` + rules + `}`, "False/NotAllowedByListeners True/ResolvedRefs"},
		"shop/elsewhere":  {`{parentRefs: [{name: edge, namespace: infra}], hostnames: [b.test], ` + rules + `}`, "False/NoMatchingListenerHostname True/ResolvedRefs"},
		"shop/section":    {`{parentRefs: [{name: edge, namespace: infra, sectionName: nowhere}], ` + rules + `}`, "False/NoMatchingParent True/ResolvedRefs"},
		"shop/port":       {`{parentRefs: [{name: edge, namespace: infra, port: 81}], ` + rules + `}`, "False/NoMatchingParent True/ResolvedRefs"},
		"shop/kind":       {`{parentRefs: [{name: edge, namespace: infra, sectionName: calls}], ` + rules + `}`, "False/NotAllowedByListeners True/ResolvedRefs"},
		"shop/none":       {`{parentRefs: [{name: edge, namespace: infra, sectionName: none}], ` + rules + `}`, "False/NotAllowedByListeners True/ResolvedRefs"},
		"shop/missing":    {`{parentRefs: [{name: edge, namespace: infra, port: 81}], rules: [{backendRefs: [{name: no-web, port: 80}]}]}`, "False/NoMatchingParent False/BackendNotFound"},
		"shop/not-there":  {`{parentRefs: [{name: absent, namespace: infra}], ` + rules + `}`, ""},
		"shop/to-service": {`{parentRefs: [{group: "", kind: Service, name: edge, namespace: infra}], ` + rules + `}`, ""},
	} {
		w.http(t, name, c.spec)
		compiled := w.compile()
		if got := compiled.route(name); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	c := w.compile()
	var attached []int32
	for _, l := range c.Gateways["infra/edge"].Listeners {
		attached = append(attached, l.Attached)
	}
	if !slices.Equal(attached, []int32{1, 1, 0, 0}) {
		t.Errorf("attached routes %v", attached)
	}
	c.check(t, map[string]string{"GET 80 same.test/": "infra/web", "GET 80 a.team.test/": "shop/web", "GET 80 b.team.test/": "404", "GET 80 b.test/": "404", "GET 8080 none.test/": "404"})
}

// TestReferences: backends that are not there, of another kind or of another namespace.
func TestReferences(t *testing.T) {
	grant := func(ns, from, kind, to string) Grant {
		return Grant{ns, parse[gatewayv1.ReferenceGrantSpec](t, `{from: [{group: gateway.networking.k8s.io, kind: `+kind+`, namespace: `+from+`}], to: [{group: "", kind: Service`+to+`}]}`)}
	}
	for name, c := range map[string]struct {
		backend, resolved, leads string
		grants                   []Grant
	}{
		"own":                 {"name: web, port: 80", "True/ResolvedRefs", "shop/web", nil},
		"missing":             {"name: no-web, port: 80", "False/BackendNotFound", "500", nil},
		"port":                {"name: web, port: 81", "False/BackendNotFound", "500", nil},
		"no port":             {"name: web", "False/BackendNotFound", "500", nil},
		"kind":                {"kind: Pod, name: web, port: 80", "False/InvalidKind", "500", nil},
		"external":            {"name: external, port: 80", "False/UnsupportedProtocol", "500", nil},
		"others'":             {"name: web, namespace: infra, port: 80", "False/RefNotPermitted", "500", nil},
		"granted":             {"name: web, namespace: infra, port: 80", "True/ResolvedRefs", "infra/web", []Grant{grant("infra", "shop", "HTTPRoute", "")}},
		"granted by name":     {"name: web, namespace: infra, port: 80", "True/ResolvedRefs", "infra/web", []Grant{grant("infra", "shop", "HTTPRoute", ", name: web")}},
		"another name":        {"name: web, namespace: infra, port: 80", "False/RefNotPermitted", "500", []Grant{grant("infra", "shop", "HTTPRoute", ", name: api")}},
		"an empty name":       {"name: web, namespace: infra, port: 80", "False/RefNotPermitted", "500", []Grant{grant("infra", "shop", "HTTPRoute", `, name: ""`)}},
		"another kind":        {"name: web, namespace: infra, port: 80", "False/RefNotPermitted", "500", []Grant{grant("infra", "shop", "GRPCRoute", "")}},
		"granted by oneself":  {"name: web, namespace: infra, port: 80", "False/RefNotPermitted", "500", []Grant{grant("shop", "shop", "HTTPRoute", "")}},
		"granted to somebody": {"name: web, namespace: infra, port: 80", "False/RefNotPermitted", "500", []Grant{grant("infra", "mallory", "HTTPRoute", "")}},
		"weight 0":            {"name: web, port: 80, weight: 0", "True/ResolvedRefs", "500", nil},
	} {
		w := newWorld()
		w.Grants = c.grants
		w.gateway(t, "infra/edge", anyHost)
		w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test], rules: [{backendRefs: [{`+c.backend+`}]}]}`)
		out := w.compile()
		if got, want := out.route("shop/a"), "True/Accepted "+c.resolved; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if got := out.leads("GET 80 a.test/"); got != c.leads {
			t.Errorf("%s leads to %s, want %s", name, got, c.leads)
		}
	}
}

// TestWeights: shares are as the weights say, and that of a backend that is not there fails.
func TestWeights(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], rules: [{backendRefs: [{name: a, port: 80, weight: 6}, {name: b, port: 80, weight: 3}, {name: no-c, port: 80, weight: 1}, {name: d, port: 80, weight: 0}]}]}`)
	c := w.compile()
	count := map[string]int{}
	for range 10_000 {
		count[c.leads("GET 80 a.test/")]++
	}
	for to, share := range map[string]int{"shop/a": 6000, "shop/b": 3000, "500": 1000, "shop/d": 0} {
		if got := count[to]; got < share-400 || got > share+400 || share == 0 && got > 0 {
			t.Errorf("%s has %d of 10000 requests, want about %d", to, got, share)
		}
	}
}

// TestCalls: GRPCRoutes, and their hosts beside those of HTTPRoutes.
func TestCalls(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	w.grpc(t, "shop/calls", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [g.test], rules: [
		{backendRefs: [{name: rest, port: 80}]},
		{matches: [{method: {service: a.B}}], backendRefs: [{name: service, port: 80}]},
		{matches: [{method: {service: a.B, method: C}}], backendRefs: [{name: call, port: 80}]},
		{matches: [{method: {method: Only}}], backendRefs: [{name: method, port: 80}]},
		{matches: [{method: {service: a.B, method: C}, headers: [{name: v, value: "2"}]}], backendRefs: [{name: header, port: 80}]},
		{matches: [{method: {type: RegularExpression, service: "x\\.[A-Z]+"}}], backendRefs: [{name: regex, port: 80}]}]}`)
	w.http(t, "shop/pages", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [g.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	w.http(t, "shop/both", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [g.test, h.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	c := w.compile()
	if got := c.route("shop/pages"); got != "False/NotAllowedByListeners True/ResolvedRefs" {
		t.Errorf("a host that calls have: %s", got)
	}
	if got := c.route("shop/both"); got != "False/NotAllowedByListeners True/ResolvedRefs" {
		t.Errorf("one of two hosts that calls have: %s", got)
	}
	c.check(t, map[string]string{
		"POST 80 g.test/z.Z/M": "shop/rest", "POST 80 g.test/a.B/M": "shop/service", "POST 80 g.test/a.B/C": "shop/call", "POST 80 g.test/a.B/C V=2": "shop/header",
		"POST 80 g.test/z.Z/Only": "shop/method", "POST 80 g.test/a.B/Only": "shop/service", "POST 80 g.test/x.Y/M": "shop/regex", "GET 80 h.test/": "404",
	})
	q := &routes.Request{Port: 80, Host: "g.test", Path: "/a.B/C", Method: "POST", Header: http.Header{}}
	if b := c.table.Route(q).Action.Draw().Backend; b.Scheme != routes.H2C {
		t.Errorf("calls are sent by %s", b.Scheme)
	}
}

// TestUnsupported: what is not served is refused with a reason, and nothing of it is served.
func TestUnsupported(t *testing.T) {
	for name, c := range map[string]struct{ rule, reason, words string }{
		"filter":             {`filters: [{type: CORS, cors: {}}]`, "UnsupportedValue", "filter CORS"},
		"extension":          {`filters: [{type: ExtensionRef, extensionRef: {group: a, kind: B, name: c}}]`, "UnsupportedValue", "filter ExtensionRef"},
		"retry":              {`retry: {attempts: 3}`, "UnsupportedValue", "retry"},
		"session":            {`sessionPersistence: {}`, "UnsupportedValue", "sessionPersistence"},
		"both":               {`filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}, {type: URLRewrite, urlRewrite: {hostname: a.test}}]`, "IncompatibleFilters", "redirect"},
		"smuggled":           {`filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: transfer-encoding, value: chunked}]}}]`, "UnsupportedValue", "Transfer-Encoding"},
		"upgraded":           {`filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: Connection, value: upgrade}]}}]`, "UnsupportedValue", "Connection"},
		"another client":     {`filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x_forwarded-for, value: 192.0.2.9}]}}]`, "UnsupportedValue", "X_forwarded-For"},
		"a backend's client": {`backendRefs: [{name: a, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: X-Real-IP, value: 192.0.2.9}]}}]}]`, "UnsupportedValue", "X-Real-Ip"},
		"answer's length":    {`filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [content-length]}}]`, "UnsupportedValue", "Content-Length"},
		"status":             {`filters: [{type: RequestRedirect, requestRedirect: {statusCode: 200}}]`, "UnsupportedValue", "status 200"},
		"timeout":            {`timeouts: {request: never}`, "UnsupportedValue", "timeout"},
		"a backend's":        {`backendRefs: [{name: a, port: 80, filters: [{type: URLRewrite, urlRewrite: {}}]}]`, "UnsupportedValue", "of a backend"},
		"no prefix":          {`matches: [{path: {type: Exact, value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]`, "UnsupportedValue", "no prefix"},
		"regex":              {`matches: [{path: {type: RegularExpression, value: "("}}]`, "UnsupportedValue", "regular expression"},
		"long regex":         {`matches: [{path: {type: RegularExpression, value: "` + strings.Repeat("a", 257) + `"}}]`, "UnsupportedValue", "256 bytes"},
		"large regex":        {`matches: [{path: {type: RegularExpression, value: "/(a{1,900}b?)"}}]`, "UnsupportedValue", "too large"},
		"regex that breaks":  {`matches: [{path: {type: RegularExpression, value: "a)|(?:.*"}}]`, "UnsupportedValue", "regular expression"},
	} {
		w := newWorld()
		w.gateway(t, "infra/edge", anyHost)
		w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], rules: [{`+c.rule+`}]}`)
		out := w.compile()
		accepted := out.Routes["shop/a"][0].Conditions[0]
		if accepted.Status != metav1.ConditionFalse || accepted.Reason != c.reason || !strings.Contains(accepted.Message, c.words) {
			t.Errorf("%s: %+v", name, accepted)
		}
		if got := out.leads("GET 80 a.test/a"); got != "404" {
			t.Errorf("%s is served: %s", name, got)
		}
	}
}

// TestKindsOfRoutes: of an HTTPRoute and a GRPCRoute whose hosts intersect at a listener, the
// older one is accepted.
func TestKindsOfRoutes(t *testing.T) {
	for _, c := range []struct {
		older, younger string
		both           bool
	}{
		{"a.test", "a.test", false}, {"a.test", "b.test", true}, {"*.a.test", "x.a.test", false}, {"x.a.test", "*.a.test", false},
		{"*.a.test", "*.a.test", false}, {"*.a.test", "*.x.a.test", false}, {"*.x.a.test", "*.a.test", false}, {"*.a.test", "a.test", true},
		{"a.test", "*.a.test", true}, {"*.a.test", "x.y.a.test", false}, {"x.y.a.test", "*.a.test", false}, {"*.a.test", "*.b.test", true},
		{"", "a.test", false}, {"a.test", "", false}, {"xa.test", "*.a.test", true},
	} {
		hosts := func(name string) string {
			if name == "" {
				return ""
			}
			return `hostnames: ["` + name + `"], `
		}
		w := newWorld()
		w.gateway(t, "infra/edge", anyHost)
		w.http(t, "shop/pages", `{parentRefs: [{name: edge, namespace: infra}], `+hosts(c.older)+`rules: [{backendRefs: [{name: web, port: 80}]}]}`)
		w.grpc(t, "shop/calls", `{parentRefs: [{name: edge, namespace: infra}], `+hosts(c.younger)+`rules: [{backendRefs: [{name: rpc, port: 80}]}]}`)
		out := w.compile()
		if got := out.route("shop/pages"); got != accepted {
			t.Errorf("%q before %q: the older is %s", c.older, c.younger, got)
		}
		want := "False/NotAllowedByListeners True/ResolvedRefs"
		if c.both {
			want = accepted
		}
		if got := out.route("shop/calls"); got != want {
			t.Errorf("%q before %q: the younger is %s, want %s", c.older, c.younger, got, want)
		}
	}
}

// TestAddresses: a Gateway that asks for addresses where it would not be served alone is not
// served, and claims no host.
func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		addresses, want string
		leads           string
	}{
		"none":      {`[]`, "True/Accepted True/Programmed", "infra/web"},
		"all":       {`[{value: 192.0.2.1}, {type: IPAddress, value: "2001:DB8:0::1"}]`, "True/Accepted True/Programmed", "infra/web"},
		"any":       {`[{type: IPAddress}]`, "True/Accepted True/Programmed", "infra/web"},
		"a part":    {`[{value: 192.0.2.1}]`, "True/Accepted False/AddressNotUsable", "404"},
		"elsewhere": {`[{value: 198.51.100.1}]`, "True/Accepted False/AddressNotUsable", "404"},
		"a name":    {`[{type: Hostname, value: a.test}]`, "False/UnsupportedAddress False/Invalid", "404"},
	} {
		w := newWorld()
		w.addresses = []string{"192.0.2.1", "2001:db8::1"}
		w.gateway(t, "infra/edge", `{name: http, port: 80, protocol: HTTP, hostname: a.test}`).Spec.Addresses = parse[[]gatewayv1.GatewaySpecAddress](t, c.addresses)
		w.http(t, "infra/a", `{parentRefs: [{name: edge}], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
		out := w.compile()
		s := out.Gateways["infra/edge"]
		if got := said(s.Conditions, "Accepted") + " " + said(s.Conditions, "Programmed"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := out.leads("GET 80 a.test/"); got != c.leads {
			t.Errorf("%s: it leads to %s", name, got)
		}
		served := c.leads != "404"
		if got := out.table.Owners()["a.test"] == "infra"; got != served {
			t.Errorf("%s: it has the host: %t", name, got)
		}
		if got := said(s.Listeners[0].Conditions, "Programmed") == "True/Programmed"; got != served || served != (len(s.Addresses) == 2) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	w := newWorld()
	for i := range 20 {
		w.addresses = append(w.addresses, fmt.Sprintf("192.0.2.%d", i+1))
	}
	w.gateway(t, "infra/edge", anyHost)
	if got := w.compile().Gateways["infra/edge"].Addresses; len(got) != maxAddresses {
		t.Errorf("the status has %d addresses", len(got))
	}
}

// TestClassGoneWhileAway: a Gateway whose class was deleted while no process ran does not keep the
// status of before. One that another controller has accepted is left alone.
func TestClassGoneWhileAway(t *testing.T) {
	w := newWorld()
	edge := w.gateway(t, "infra/edge", anyHost)
	edge.Status.Conditions = w.compile().Gateways["infra/edge"].Conditions // as it was written
	others := w.gateway(t, "infra/others", anyHost)
	others.Spec.GatewayClassName = "gone"
	others.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", Message: "pintle.dev/gateway is not mine"}}
	w.Classes = nil
	c := w.compile() // of a process that knows of nothing before
	if got := c.Gateways["infra/edge"]; said(got.Conditions, "Accepted") != "Unknown/Pending" || said(got.Conditions, "Programmed") != "False/Invalid" || len(got.Addresses) > 0 {
		t.Errorf("without its class it says %+v", got)
	}
	if _, ok := c.Gateways["infra/others"]; ok {
		t.Error("a Gateway of another controller has a status")
	}
	// It is still known after the next restart.
	edge.Status.Conditions = c.Gateways["infra/edge"].Conditions
	if _, ok := w.compile().Gateways["infra/edge"]; !ok {
		t.Error("it is forgotten")
	}
}

// TestClassGone: a Gateway whose class is deleted, or is not accepted any more, does not go on
// saying that it is served. One of another controller is left alone.
func TestClassGone(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	w.gateway(t, "infra/others", anyHost).Spec.GatewayClassName = "gone"
	w.before = map[types.UID]bool{"infra/edge": true}
	conditions := func() string {
		c := w.compile()
		if _, ok := c.Gateways["infra/others"]; ok {
			t.Error("a Gateway that was never ours has a status")
		}
		all := c.Gateways["infra/edge"]
		return said(all.Conditions, "Accepted") + " " + said(all.Conditions, "Programmed") + fmt.Sprint(" ", len(all.Addresses))
	}
	if got := conditions(); got != "True/Accepted True/Programmed 1" {
		t.Errorf("with its class: %s", got)
	}
	ours := w.Classes[0]
	w.Classes = w.Classes[1:]
	if got := conditions(); got != "Unknown/Pending False/Invalid 0" {
		t.Errorf("without its class: %s", got)
	}
	ours.Spec.ParametersRef = &gatewayv1.ParametersReference{Kind: "ConfigMap", Name: "a"}
	w.Classes = append(w.Classes, ours)
	if got := conditions(); got != "False/InvalidParameters False/Invalid 0" {
		t.Errorf("with parameters of its class: %s", got)
	}
	ours.Spec = gatewayv1.GatewayClassSpec{ControllerName: "example.com/other"}
	if got := conditions(); got != "  0" {
		t.Errorf("with a class of another controller: %s", got)
	}
}
