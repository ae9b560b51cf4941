package gateway

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// TestThieves: a host stays with the namespace that has it, by a Gateway or by an Ingress
// (4-21.9; hostile).
func TestThieves(t *testing.T) {
	w := newWorld()
	w.gateway(t, "shop/edge", `{name: http, port: 80, protocol: HTTP, hostname: "*.shop.test"}`)
	w.http(t, "shop/a", `{parentRefs: [{name: edge}], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	w.ingresses = []*networkingv1.Ingress{{ObjectMeta: w.meta("infra/old"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "ingress.test", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "own", Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
	}}}}}}}
	first := w.compile()
	w.owners = first.table.Owners()
	w.gateway(t, "mallory/deep", `{name: http, port: 80, protocol: HTTP, hostname: pay.eu.shop.test}`)
	w.gateway(t, "mallory/wild", `{name: http, port: 80, protocol: HTTP, hostname: "*.eu.shop.test"}`)
	w.gateway(t, "mallory/any", `{name: http, port: 80, protocol: HTTP}`)
	evil := `rules: [{backendRefs: [{name: evil, port: 80}]}]`
	w.http(t, "mallory/deep", `{parentRefs: [{name: deep}], `+evil+`}`)
	w.http(t, "mallory/wild", `{parentRefs: [{name: wild}], `+evil+`}`)
	w.http(t, "mallory/one", `{parentRefs: [{name: any}], hostnames: [one.shop.test], `+evil+`}`)
	w.http(t, "mallory/ingress", `{parentRefs: [{name: any}], hostnames: [ingress.test], `+evil+`}`)
	w.http(t, "mallory/all", `{parentRefs: [{name: any}], `+evil+`}`)
	w.http(t, "mallory/some", `{parentRefs: [{name: any}], hostnames: [ingress.test, mine.test], `+evil+`}`)
	// An older age than all others does not help.
	for _, g := range w.Gateways[1:] {
		g.CreationTimestamp.Time = g.CreationTimestamp.AddDate(-20, 0, 0)
	}
	c := w.compile()
	for name, want := range map[string]string{
		"mallory/one": "False/NotAllowedByListeners True/ResolvedRefs", "mallory/ingress": "False/NotAllowedByListeners True/ResolvedRefs",
		"mallory/all": accepted, "mallory/some": accepted, "shop/a": accepted,
	} {
		if got := c.route(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"mallory/deep", "mallory/wild"} {
		for _, g := range w.Gateways {
			if g.Namespace+"/"+g.Name == name && said(c.Gateways[g.UID].Listeners[0].Conditions, "Conflicted") != "True/HostnameConflict" {
				t.Errorf("%s: %+v", name, c.Gateways[g.UID])
			}
		}
	}
	if got := said(c.Routes["mallory/some"][0].Conditions, "PartiallyInvalid"); got != "True/UnsupportedValue" {
		t.Errorf("a route with a host of others: %q", got)
	}
	c.check(t, map[string]string{
		"GET 80 one.shop.test/": "shop/web", "GET 80 pay.eu.shop.test/": "shop/web", "GET 80 ingress.test/": "infra/own", "GET 80 mine.test/": "mallory/evil",
		"GET 80 nobody.test/": "mallory/evil", // nobody has it: the catch-all may be anybody's, and the first one keeps it
	})
}

// TestBudgets: a namespace with 10,000 routes has its own budget, and takes nothing of that
// of others; each of its routes says what is so (hostile).
func TestBudgets(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	for i := range 10_000 {
		w.http(t, fmt.Sprintf("mallory/r%d", i), fmt.Sprintf(`{parentRefs: [{name: edge, namespace: infra}], hostnames: [h%d.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`, i))
	}
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	c := w.compile()
	served := 0
	for i := range 10_000 {
		switch got := c.route(fmt.Sprintf("mallory/r%d", i)); got {
		case accepted:
			served++
		case "False/UnsupportedValue ":
		default:
			t.Fatalf("r%d: %s", i, got)
		}
	}
	if served != w.most {
		t.Errorf("%d routes are served, want %d", served, w.most)
	}
	if got := c.route("shop/a"); got != accepted {
		t.Errorf("the other namespace: %s", got)
	}
	if got := c.Gateways["infra/edge"].Listeners[0].Attached; got != int32(w.most)+1 {
		t.Errorf("%d routes are attached", got)
	}
	c.check(t, map[string]string{"GET 80 a.test/": "shop/web", "GET 80 h0.test/": "mallory/web", "GET 80 h9999.test/": "404"})
}

// TestRefusedReferences: references of routes that no listener takes are looked at, as many as
// the namespace has looks, and no more (hostile).
func TestRefusedReferences(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	var refs []string
	for range 16 {
		refs = append(refs, "{name: web, port: 80}")
	}
	rule := "{backendRefs: [" + strings.Join(refs, ", ") + "]}"
	rules := strings.Repeat(rule+", ", 15) + rule
	const routes, each = 1000, 16 * 16
	for i := range routes {
		w.http(t, fmt.Sprintf("mallory/r%d", i), `{parentRefs: [{name: edge, namespace: infra, port: 81}], rules: [`+rules+`]}`)
	}
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra, port: 81}], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	c := w.compile()
	resolved := 0
	for i := range routes {
		switch got := c.route(fmt.Sprintf("mallory/r%d", i)); got {
		case "False/NoMatchingParent True/ResolvedRefs":
			resolved++
		case "False/NoMatchingParent ", "False/UnsupportedValue ":
		default:
			t.Fatalf("r%d: %s", i, got)
		}
	}
	if most := looksPerMatch * w.most / each; resolved == 0 || resolved > most {
		t.Errorf("the references of %d routes were looked at, want 1 to %d", resolved, most)
	}
	if got := c.route("shop/a"); got != "False/NoMatchingParent True/ResolvedRefs" {
		t.Errorf("the other namespace: %s", got)
	}
}

// TestMultiplied: one route with many hosts and matches counts by their product.
func TestMultiplied(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	var hosts, matches []string
	for i := range 16 {
		hosts = append(hosts, fmt.Sprintf("h%d.test", i))
	}
	for i := range 64 {
		matches = append(matches, fmt.Sprintf("{path: {value: /%d}}", i))
	}
	w.http(t, "mallory/wide", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [`+strings.Join(hosts, ", ")+`], rules: [{matches: [`+strings.Join(matches, ", ")+`]}]}`)
	c := w.compile()
	if got := c.route("mallory/wide"); got != "False/UnsupportedValue " {
		t.Errorf("16 hosts with 64 matches: %s", got)
	}
}

// TestPatterns: a namespace has a number of regular expressions, and a text a length beyond
// which none is tried.
func TestPatterns(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	for i := range maxPatterns + 1 {
		w.http(t, fmt.Sprintf("mallory/r%d", i), `{parentRefs: [{name: edge, namespace: infra}], hostnames: [m.test], rules: [{matches: [{path: {type: RegularExpression, value: "/(x+x+)+y"}}], backendRefs: [{name: web, port: 80}]}]}`)
	}
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test], rules: [{matches: [{path: {type: RegularExpression, value: "/x+"}}], backendRefs: [{name: web, port: 80}]}]}`)
	c := w.compile()
	if got := c.route(fmt.Sprintf("mallory/r%d", maxPatterns-1)); got != accepted {
		t.Errorf("the last that fits: %s", got)
	}
	if got := c.route(fmt.Sprintf("mallory/r%d", maxPatterns)); got != "False/UnsupportedValue " {
		t.Errorf("one too many: %s", got)
	}
	c.check(t, map[string]string{
		"GET 80 a.test/xx": "shop/web", "GET 80 a.test/" + strings.Repeat("x", 2000): "404",
		"GET 80 m.test/xxxy": "mallory/web", "GET 80 m.test/" + strings.Repeat("x", 1000): "404",
	})
}

// TestMultipliedPatterns: a pattern counts for each host at each listener, so that no request
// has the same ones tried again and again below nested wildcards (hostile).
func TestMultipliedPatterns(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost+`, {name: more, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}`)
	wildcards := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, `"*.`+strings.Repeat("a.", i)+`m.test"`)
		}
		return strings.Join(out, ", ")
	}
	pattern := `{path: {type: RegularExpression, value: "/x+"}}`
	w.http(t, "mallory/fits", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [`+wildcards(maxPatterns/2)+`], rules: [{matches: [`+pattern+`]}]}`)
	w.http(t, "mallory/one-more", `{parentRefs: [{name: edge, namespace: infra, sectionName: http}], hostnames: [m.test], rules: [{matches: [`+pattern+`]}]}`)
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test], rules: [{matches: [`+pattern+`]}]}`)
	c := w.compile()
	for name, want := range map[string]string{"mallory/fits": accepted, "mallory/one-more": "False/UnsupportedValue ", "shop/a": accepted} {
		if got := c.route(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestManyLooks: what routes have looked at counts for their namespace before it is looked
// at, whether it leads somewhere or not (hostile).
func TestManyLooks(t *testing.T) {
	w := newWorld()
	var listeners, hosts, refs []string
	for i := range 64 {
		listeners = append(listeners, fmt.Sprintf(`{name: l%d, port: 80, protocol: HTTP, hostname: l%d.test, allowedRoutes: {namespaces: {from: All}}}`, i, i))
	}
	for i := range 16 {
		hosts = append(hosts, fmt.Sprintf("nowhere%d.test", i))
	}
	for i := range 32 {
		refs = append(refs, fmt.Sprintf("{name: edge, namespace: infra, port: 80, sectionName: l%d}", i))
	}
	w.gateway(t, "infra/edge", strings.Join(listeners, ", "))
	for i := range 100 {
		w.http(t, fmt.Sprintf("mallory/r%d", i), `{parentRefs: [`+strings.Join(refs, ", ")+`], hostnames: [`+strings.Join(hosts, ", ")+`], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	}
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [l0.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	p := Prepare(&w.Objects, Settings{HTTPPorts: map[int]bool{80: true}, MaxMatches: w.most})
	looked := 0
	for _, r := range p.routes {
		for _, at := range r.parents {
			if r.namespace == "mallory" && at.refused.reason == string(gatewayv1.RouteReasonNoMatchingListenerHostname) {
				looked += len(listeners) * len(hosts)
			}
		}
	}
	if most := looksPerMatch * w.most; looked == 0 || looked > most {
		t.Errorf("%d listeners times hosts were looked at, want at most %d", looked, most)
	}
	c := w.compile()
	if got := said(c.Routes["mallory/r99"][0].Conditions, "Accepted"); got != "False/UnsupportedValue" {
		t.Errorf("what is beyond: %s", got)
	}
	if got := c.route("shop/a"); got != accepted {
		t.Errorf("the other namespace: %s", got)
	}
}

// TestManyGateways: a namespace has a number of them; the others are not read.
func TestManyGateways(t *testing.T) {
	w := newWorld()
	for i := range maxGateways + 1 {
		w.gateway(t, fmt.Sprintf("mallory/g%d", i), fmt.Sprintf(`{name: http, port: 80, protocol: HTTP, hostname: h%d.test}`, i))
	}
	c := w.compile()
	if got := said(c.Gateways["mallory/g0"].Conditions, "Programmed"); got != "True/Programmed" {
		t.Errorf("the first: %s", got)
	}
	last := c.Gateways["mallory/g32"]
	if got := said(last.Conditions, "Accepted"); got != "False/Invalid" {
		t.Errorf("one too many: %s", got)
	}
	if len(last.Listeners) != 0 {
		t.Errorf("its listeners were read: %+v", last.Listeners)
	}
	w.http(t, "mallory/a", `{parentRefs: [{name: g32}], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	again := w.compile()
	if got := said(again.Routes["mallory/a"][0].Conditions, "Accepted"); got != "False/NoMatchingParent" {
		t.Errorf("a route of it: %s", got)
	}
}

// ofIngress is an Ingress of a host that leads to the Service evil.
func (w *world) ofIngress(name, host string) {
	w.ingresses = append(w.ingresses, &networkingv1.Ingress{ObjectMeta: w.meta(name), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "evil", Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
	}}}}}})
}

// TestRestart: a process that starts anew knows no owners. An Ingress that is younger than a
// Gateway takes no host from it then (hostile).
func TestRestart(t *testing.T) {
	w := newWorld()
	w.ofIngress("infra/before", "ingress.test")
	w.gateway(t, "shop/edge", `{name: http, port: 80, protocol: HTTP, hostname: shop.test}, {name: wild, port: 80, protocol: HTTP, hostname: "*.wild.test"}, {name: any, port: 80, protocol: HTTP}`)
	w.http(t, "shop/a", `{parentRefs: [{name: edge}], hostnames: [shop.test, a.wild.test, route.test, ingress.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	for _, host := range []string{"shop.test", "a.wild.test", "deep.a.wild.test", "route.test"} {
		w.ofIngress("mallory/"+host, host)
	}
	c := w.compile()
	c.check(t, map[string]string{
		"GET 80 shop.test/": "shop/web", "GET 80 a.wild.test/": "shop/web", "GET 80 deep.a.wild.test/": "404", "GET 80 route.test/": "shop/web",
		"GET 80 ingress.test/": "infra/evil",
	})
}

// TestGuestBudgets: Secrets that a guest names by a grant count for the guest, and leave the
// namespace that granted them its own (hostile).
func TestGuestBudgets(t *testing.T) {
	w := newWorld()
	w.Grants = []Grant{{"shop", parse[gatewayv1.ReferenceGrantSpec](t, `{from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: mallory}], to: [{group: "", kind: Secret}]}`)}}
	var refs []string
	for i := range routes.MaxSecrets + 1 {
		refs = append(refs, fmt.Sprintf("{name: guess%d, namespace: shop}", i))
	}
	w.gateway(t, "mallory/edge", `{name: a, port: 443, protocol: HTTPS, hostname: m.test, tls: {certificateRefs: [`+strings.Join(refs, ", ")+`]}}`)
	w.gateway(t, "shop/edge", `{name: a, port: 443, protocol: HTTPS, hostname: shop.test, tls: {certificateRefs: [{name: own}]}}`)
	w.secrets["shop/own"] = nil
	c := w.compile()
	if got := said(c.Gateways["shop/edge"].Listeners[0].Conditions, "ResolvedRefs"); got != "True/ResolvedRefs" {
		t.Errorf("the owner's Secret: %s", got)
	}
	if got := c.Gateways["mallory/edge"].Listeners[0].Conditions; said(got, "ResolvedRefs") != "False/InvalidCertificateRef" {
		t.Errorf("the guest's: %v", got)
	}
	if len(c.Secrets) != routes.MaxSecrets+1 {
		t.Errorf("%d Secrets are read", len(c.Secrets))
	}
}

// TestPayers: a Service that two namespaces lead to has a backend for each, whose budgets
// are its own.
func TestPayers(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	w.Grants = []Grant{{"shop", parse[gatewayv1.ReferenceGrantSpec](t, `{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: mallory}], to: [{group: "", kind: Service, name: web}]}`)}}
	w.http(t, "mallory/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [m.test], rules: [{backendRefs: [{name: web, namespace: shop, port: 80}]}]}`)
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [s.test], rules: [{backendRefs: [{name: web, port: 80}]}]}`)
	c := w.compile()
	of := func(host string) *routes.Backend {
		return c.table.Route(&routes.Request{Port: 80, Host: host, Path: "/"}).Action.Draw().Backend
	}
	guest, owner := of("m.test"), of("s.test")
	if guest == owner || guest.Payer != "mallory" || owner.Payer != "shop" || guest.Namespace != "shop" {
		t.Errorf("the backends are %+v and %+v", guest, owner)
	}
}
