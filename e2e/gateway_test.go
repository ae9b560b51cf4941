package e2e

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const gated = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: pintle
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {edge: "yes"}}}}}
  - name: https
    port: 443
    protocol: HTTPS
    hostname: shop.example.com
    tls: {certificateRefs: [{name: shop}]}
  - {name: other, port: 8081, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: edge}]
  hostnames: [shop.example.com]
  rules:
  - backendRefs: [{name: web, port: 80}]
  - matches: [{path: {type: Exact, value: /plain}, headers: [{name: x-version, value: two}]}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /}}}]
    backendRefs: [{name: plain, port: 80}]
  - matches: [{path: {value: /old}}]
    filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: health}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: [grpc.example.com]
  rules:
  - matches: [{method: {service: grpc.health.v1.Health}}]
    backendRefs: [{name: web, port: 90}]
`

// gatewayConditions are those of an object as "TYPE=STATUS/REASON", of the first parent of
// a route.
func (e *env) gatewayConditions(ctx context.Context, ns, kind, name string) (map[string]string, error) {
	raw, err := e.client.Discovery().RESTClient().Get().AbsPath("/apis/gateway.networking.k8s.io/v1/namespaces", ns, kind, name).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	type conditions []metav1.Condition
	var o struct {
		Status struct {
			Conditions conditions
			Parents    []struct{ Conditions conditions }
			Listeners  []struct {
				Name           string
				AttachedRoutes int
				Conditions     conditions
			}
		}
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	out := map[string]string{}
	take := func(before string, all conditions) {
		for _, c := range all {
			out[before+c.Type] = string(c.Status) + "/" + c.Reason
		}
	}
	take("", o.Status.Conditions)
	if len(o.Status.Parents) > 0 {
		take("", o.Status.Parents[0].Conditions)
	}
	for _, l := range o.Status.Listeners {
		take(l.Name+" ", l.Conditions)
		out[l.Name+" routes"] = fmt.Sprint(l.AttachedRoutes)
	}
	return out, nil
}

func (e *env) hasConditions(t *testing.T, ns, kind, name string, want map[string]string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		got, err := e.gatewayConditions(ctx, ns, kind, name)
		if err != nil {
			return err
		}
		for k, v := range want {
			if got[k] != v {
				return fmt.Errorf("%s %s/%s: %s is %q, want %q, of %v", kind, ns, name, k, got[k], v, got)
			}
		}
		return nil
	})
}

// TestGateway: the shipped plugins, started by their first Gateway: HTTP and HTTPS, gRPC, filters,
// conditions, a rollout without a failed request, a reference of another namespace before
// and after its grant, and a thief of hosts (4-21.1, 4-21.9).
func TestGateway(t *testing.T) {
	t.Parallel()
	needContainers(t)
	dir := t.TempDir()
	e := private(t, cluster.Options{Name: "gateway", Config: "configs/standalone.yaml"})
	ns := e.namespace(t)
	if out, err := exec.Command("make", "-C", "..", "bin/gateway-api.yaml").CombinedOutput(); err != nil {
		t.Fatalf("the kinds of Gateway API: %v\n%s", err, out)
	}
	kinds, err := filepath.Abs("../bin/gateway-api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "apply", "--server-side", "-f", kinds)
	e.kubectl(t, "wait", "--for=condition=Established", "--timeout=110s", "crd/gateways.gateway.networking.k8s.io", "crd/httproutes.gateway.networking.k8s.io",
		"crd/grpcroutes.gateway.networking.k8s.io", "crd/gatewayclasses.gateway.networking.k8s.io", "crd/referencegrants.gateway.networking.k8s.io")
	e.kubectl(t, "label", "namespace", ns, "edge=yes")
	certificate, key, authority := servingFiles(t, dir, "shop.example.com")
	e.kubectl(t, "-n", ns, "create", "secret", "tls", "shop", "--cert", certificate, "--key", key)
	services, _, _ := strings.Cut(fronted, "---\napiVersion: v1\nkind: Service\nmetadata: {name: echo}")
	e.apply(t, ns, strings.ReplaceAll(services, "BOX", box)+"---"+gated)
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	e.awaitPod(t, ns, "plain", isReady)
	e.hasConditions(t, ns, "gateways", "edge", map[string]string{
		"Accepted": "True/ListenersNotValid", "Programmed": "True/Programmed",
		"http Accepted": "True/Accepted", "http Programmed": "True/Programmed", "http ResolvedRefs": "True/ResolvedRefs", "http Conflicted": "False/NoConflicts", "http routes": "2",
		"https Programmed": "True/Programmed", "https routes": "1",
		"other Accepted": "False/PortUnavailable", "other Programmed": "False/Invalid",
	})
	e.hasConditions(t, ns, "httproutes", "shop", map[string]string{"Accepted": "True/Accepted", "ResolvedRefs": "True/ResolvedRefs"})
	e.hasConditions(t, ns, "grpcroutes", "health", map[string]string{"Accepted": "True/Accepted", "ResolvedRefs": "True/ResolvedRefs"})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	c := e.through(t, roots)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	e.atURL(t, c, "http://shop.example.com/", "200 HTTP/1.1 web-")
	e.atURL(t, c, "https://shop.example.com/", "200 HTTP/2.0 web-")
	e.atURL(t, c, "http://elsewhere.example.com/", "404 ")
	e.gatewayFilters(t, c)
	e.healthAt(t, "grpc.example.com", nil)
	e.rolls(t, c, ns)
	e.gatewayGrant(t, c, ns)
	e.gatewayRights(t)
}

// gatewayFilters: a header leads elsewhere with another path, and a redirect keeps the rest
// of the path.
func (e *env) gatewayFilters(t *testing.T, c *http.Client) {
	t.Helper()
	asks := func(url, version string, check func(*http.Response) error) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			if version != "" {
				r.Header.Set("X-Version", version)
			}
			response, err := c.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			return check(response)
		})
	}
	asks("http://shop.example.com/plain", "two", func(r *http.Response) error {
		var text [6]byte
		if _, err := io.ReadFull(r.Body, text[:]); err != nil || string(text[:]) != "plain " {
			return fmt.Errorf("by its header the request leads to %d %q, %v", r.StatusCode, text, err)
		}
		return nil
	})
	asks("http://shop.example.com/old/page?q=1", "", func(r *http.Response) error {
		if r.StatusCode != http.StatusMovedPermanently || r.Header.Get("Location") != "https://shop.example.com/new/page?q=1" {
			return fmt.Errorf("redirected by %d to %q", r.StatusCode, r.Header.Get("Location"))
		}
		return nil
	})
}

// gatewayGrant: a route of another namespace, which the listener does not allow at first, has
// a Service of this one when a ReferenceGrant says so; a Gateway of its own takes no host.
func (e *env) gatewayGrant(t *testing.T, c *http.Client, ns string) {
	t.Helper()
	other := ns + "-guest"
	e.kubectl(t, "create", "namespace", other)
	t.Cleanup(func() { e.try(t, "delete", "namespace", other, "--wait=false") })
	e.apply(t, other, strings.ReplaceAll(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: guest}
spec:
  parentRefs: [{name: edge, namespace: HOME}]
  hostnames: [guest.example.com]
  rules: [{backendRefs: [{name: web, namespace: HOME, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: thief}
spec:
  gatewayClassName: pintle
  listeners: [{name: http, port: 80, protocol: HTTP, hostname: shop.example.com}]
`, "HOME", ns))
	e.hasConditions(t, other, "httproutes", "guest", map[string]string{"Accepted": "False/NotAllowedByListeners"})
	e.hasConditions(t, other, "gateways", "thief", map[string]string{"http Conflicted": "True/HostnameConflict", "http Programmed": "False/Invalid"})
	e.kubectl(t, "label", "namespace", other, "edge=yes")
	e.hasConditions(t, other, "httproutes", "guest", map[string]string{"Accepted": "True/Accepted", "ResolvedRefs": "False/RefNotPermitted"})
	e.atURL(t, c, "http://guest.example.com/", "500 ")
	e.apply(t, ns, strings.ReplaceAll(`
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: guest}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: OTHER}]
  to: [{group: "", kind: Service, name: web}]
`, "OTHER", other))
	e.hasConditions(t, other, "httproutes", "guest", map[string]string{"ResolvedRefs": "True/ResolvedRefs"})
	e.atURL(t, c, "http://guest.example.com/", "200 HTTP/1.1 web-")
	e.kubectl(t, "-n", ns, "delete", "referencegrant", "guest")
	e.atURL(t, c, "http://guest.example.com/", "500 ")
	if got, err := fetched(bound(t), c, "http://shop.example.com/"); err != nil || !strings.HasPrefix(got, "200 HTTP/1.1 web-") {
		t.Errorf("the host of another namespace answers %q, %v", got, err)
	}
}

// gatewayRights: what the plugin may not is refused to it as to anybody.
func (e *env) gatewayRights(t *testing.T) {
	t.Helper()
	for what, want := range map[string]string{
		"list gateways.gateway.networking.k8s.io": "yes", "list namespaces": "yes",
		"get secrets": "no", "list secrets": "no", "update httproutes.gateway.networking.k8s.io": "no", "list pods": "no",
		"create customresourcedefinitions.apiextensions.k8s.io": "no", "get nodes": "no",
	} {
		verb, of, _ := strings.Cut(what, " ")
		if r := e.try(t, "auth", "can-i", verb, of, "-A", "--as=system:pintle:plugin:gateway"); strings.TrimSpace(r.stdout) != want {
			t.Errorf("whether the gateway may %s: %+v, want %s", what, r, want)
		}
	}
	if r := e.try(t, "auth", "can-i", "list", "gateways.gateway.networking.k8s.io", "-A", "--as=system:pintle:plugin:ingress"); strings.TrimSpace(r.stdout) != "no" {
		t.Errorf("the ingress may list Gateways: %+v", r)
	}
}
