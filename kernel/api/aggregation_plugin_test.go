package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// pluginServers are those of one plugin, fishes, which serves one group version.
type pluginServers struct {
	gv schema.GroupVersion
	by *http.Transport
}

func (p *pluginServers) Transport(plugin string, gv schema.GroupVersion) (http.RoundTripper, error) {
	if plugin != "fishes" || gv != p.gv {
		return nil, fmt.Errorf("plugin %s does not serve %s at this API server", plugin, gv)
	}
	return p.by, nil
}

// newPluginServers is a plugin that answers as an extension does.
func newPluginServers(t *testing.T, group string) (*extension, *pluginServers) {
	t.Helper()
	e := &extension{group: group}
	e.server = httptest.NewServer(http.HandlerFunc(e.serve))
	by := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", e.server.Listener.Addr().String())
	}}
	t.Cleanup(func() {
		by.CloseIdleConnections()
		e.server.CloseClientConnections()
		e.server.Close()
	})
	return e, &pluginServers{schema.GroupVersion{Group: group, Version: "v1"}, by}
}

func pluginService(group, plugin string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group, Labels: map[string]string{v1alpha1.PluginLabel: plugin}},
		Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 200}}
}

func TestPluginServesGroupVersion(t *testing.T) {
	e, servers := newPluginServers(t, "reef.example.com")
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.PluginServers = servers })
	client := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).RESTClient()
	get := func(path string) (string, error) {
		data, err := client.Get().AbsPath(path).DoRaw(t.Context())
		return string(data), err
	}
	for group, plugin := range map[string]string{e.group: "fishes", "sky.example.com": "fishes", "lake.example.com": "none"} {
		if _, err := registrations(t, s).Create(t.Context(), pluginService(group, plugin), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the plugin is routed", func() bool { _, err := get(e.path() + "/fishes/trout"); return err == nil })
	until(t, "it is in discovery", func() bool {
		data, err := client.Get().AbsPath("/apis").SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(t.Context())
		return err == nil && strings.Contains(string(data), `"fishes"`)
	})
	if names := servedNames(t, s); !slices.Contains(names, "v1."+e.group) {
		t.Errorf("the group is not among %v", names)
	}
	until(t, "its OpenAPI is there", func() bool {
		index, err := get("/openapi/v3")
		return err == nil && strings.Contains(index, strings.TrimPrefix(e.path(), "/"))
	})
	if document, err := get("/openapi/v3" + e.path()); err != nil || !strings.Contains(document, e.group) {
		t.Errorf("openapi: %s %v", document, err)
	}
	// It is shown as the plugin's, and nobody calls it available who does not know.
	table, err := client.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(table), `"v1.reef.example.com","plugin/fishes","Unknown"`) {
		t.Errorf("table: %v %s", err, table)
	}
	// A label gives nobody what a plugin does not serve.
	for group, want := range map[string]string{
		"sky.example.com":  "plugin fishes does not serve sky.example.com/v1 at this API server",
		"lake.example.com": "plugin none does not serve lake.example.com/v1 at this API server",
	} {
		if said, err := get("/apis/" + group + "/v1"); !apierrors.IsServiceUnavailable(err) || !strings.Contains(said, want) {
			t.Errorf("%s: %v %s", group, err, said)
		}
	}

	web, host := transportTo(t, s, "")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, host+e.path()+"/fishes/trout", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Remote-User": "forged", "X-Remote-Group": "forged", "X-Remote-Uid": "forged", "X-Remote-Extra-Forged": "forged"} {
		req.Header.Set(name, value)
	}
	res, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	got := e.last(e.path() + "/fishes/trout").Header
	if res.StatusCode != http.StatusOK || got.Get("X-Remote-User") == "" || got.Get("Authorization") != "" {
		t.Errorf("%s: %v", res.Status, got)
	}
	for name, values := range got {
		if strings.Contains(name, "Forged") || slices.Contains(values, "forged") {
			t.Errorf("a client's own word: %s: %v", name, values)
		}
	}

	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		code   int
	}{
		{"redirects", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://169.254.169.254/", http.StatusFound)
		}, http.StatusBadGateway},
		{"cuts off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, http.StatusServiceUnavailable},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(conn, "SSH-2.0-none\r\n")
				conn.Close()
			}
		}, http.StatusServiceUnavailable},
	} {
		e.respondBelow(c.answer)
		res, err := web.Get(host + e.path() + "/fishes/trout")
		if err != nil {
			t.Fatal(c.name, err)
		}
		res.Body.Close()
		if res.StatusCode != c.code || res.Header.Get("Location") != "" {
			t.Errorf("%s: %s %v", c.name, res.Status, res.Header)
		}
	}
	e.respond(nil)
	if err := registrations(t, s).Delete(t.Context(), "v1."+e.group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is gone", func() bool { _, err := get(e.path() + "/fishes/trout"); return apierrors.IsNotFound(err) })
}

// A kernel that does not have a plugin says so, where another one of the cluster has it.
func TestPluginOfAnotherKernel(t *testing.T) {
	s := start(t, t.TempDir())
	if _, err := registrations(t, s).Create(t.Context(), pluginService("reef.example.com", "fishes"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).RESTClient()
	until(t, "it says so", func() bool {
		said, err := client.Get().AbsPath("/apis/reef.example.com/v1").DoRaw(t.Context())
		return apierrors.IsServiceUnavailable(err) && strings.Contains(string(said), "plugin fishes is not in use at this API server")
	})
}
