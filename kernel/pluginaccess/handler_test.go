package pluginaccess

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func permission(namespace, group, resource string, verbs ...string) v1alpha1.PluginPermission {
	return v1alpha1.PluginPermission{Namespace: namespace, PolicyRule: rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}}}
}

// upstream answers with what it was asked, and by whom.
func upstream(t *testing.T) *url.URL {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" { // says one thing, and goes on
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		var who []string
		for name := range r.Header {
			if claims(name) {
				who = append(who, name)
			}
		}
		fmt.Fprintf(w, "%s %s as %s", r.Method, r.URL.RequestURI(), strings.Join(who, ","))
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// node adds what makes a request the node's.
type node struct{}

func (node) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "node")
	return http.DefaultTransport.RoundTrip(r)
}

// TestHandler: what the rules of the plugin allow passes, as the node; everything else is refused
// here, whatever the node may do.
func TestHandler(t *testing.T) {
	var denied []string
	h := Handler(Config{
		Plugin: "p", Server: upstream(t), Transport: node{}, Logger: slog.New(slog.DiscardHandler), Denied: func(what string) { denied = append(denied, what) },
		Rules: func() []v1alpha1.PluginPermission {
			named := permission("", "", "configmaps", "get")
			named.ResourceNames = []string{"mine"}
			return []v1alpha1.PluginPermission{
				permission("", "", "services", "list", "watch"), permission("", "discovery.k8s.io", "endpointslices", "list", "watch"), permission("own", "", "pods", "get"), named,
			}
		},
	})
	const yes, no = http.StatusOK, http.StatusForbidden
	for _, tt := range []struct {
		method, path string
		header       string
		want         int
		what         string // that is denied
	}{
		{"GET", "/api/v1/services?limit=500", "", yes, ""},
		{"GET", "/api/v1/namespaces/x/services", "", yes, ""},
		{"GET", "/apis/discovery.k8s.io/v1/endpointslices", "", yes, ""},
		{"GET", "/api/v1/namespaces/own/pods/a", "", yes, ""},
		{"GET", "/api/v1/namespaces/other/configmaps/mine", "", yes, ""},
		{"GET", "/api/v1/services", "Authorization", yes, ""}, // replaced by the node's
		{"GET", "/version", "", yes, ""}, {"GET", "/apis", "", yes, ""}, {"GET", "/openapi/v3/api/v1", "", yes, ""},

		{"GET", "/api/v1/namespaces/x/services/a", "", no, "get services"},
		{"POST", "/api/v1/namespaces/x/services", "", no, "create services"},
		{"DELETE", "/api/v1/namespaces/x/services", "", no, "deletecollection services"},
		{"GET", "/api/v1/secrets", "", no, "list secrets"},
		{"GET", "/api/v1/nodes", "", no, "list nodes"},
		{"GET", "/api/v1/pods", "", no, "list pods"},
		{"GET", "/api/v1/namespaces/other/pods/a", "", no, "get pods"},
		{"GET", "/api/v1/namespaces/own/pods/a/log", "", no, "get pods/log"},
		{"POST", "/api/v1/namespaces/own/pods/a/exec", "", no, "create pods/exec"},
		{"GET", "/api/v1/namespaces/own/configmaps/other", "", no, "get configmaps"},
		{"GET", "/api/v1/namespaces/own/configmaps", "", no, "list configmaps"},
		{"GET", "/apis/other.example.com/v1/endpointslices", "", no, "list endpointslices"},
		{"GET", "/api/v1/services", "Impersonate-User", no, "impersonate"},
		{"GET", "/api/v1/services", "Impersonate-Extra-X", no, "impersonate"},
		{"GET", "/api/v1/services", "Upgrade", no, "list services"},
		{"GET", "/api/v1/services/../secrets", "", no, ""},
		{"GET", "/api/v1/namespaces/own/pods/..%2f..%2f..%2fsecrets", "", no, ""},
		{"GET", "/api/v1/namespaces/own/pods/%2e%2e/%2e%2e/x/secrets", "", no, ""},
		{"GET", "/version/../api/v1/secrets", "", no, ""},
		{"GET", "//api/v1/secrets", "", no, ""},
		{"GET", "/metrics", "", no, ""}, {"GET", "/logs", "", no, ""}, {"POST", "/version", "", no, ""},
		{"CONNECT", "/api/v1/services", "", no, ""},
	} {
		denied = nil
		r := httptest.NewRequestWithContext(t.Context(), tt.method, "http://pintle.local"+tt.path, http.NoBody)
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != tt.want || tt.want == yes && body != "GET "+tt.path+" as Authorization" {
			t.Errorf("%s %s (%s): %d %s, want %d", tt.method, tt.path, tt.header, w.Code, body, tt.want)
		}
		if tt.want == no && len(denied) != 1 || tt.what != "" && (len(denied) == 0 || denied[0] != tt.what) {
			t.Errorf("%s %s: it is said that %q was denied, want %q", tt.method, tt.path, denied, tt.what)
		}
		if tt.want == no && !strings.Contains(body, `"reason": "Forbidden"`) {
			t.Errorf("%s %s: the refusal is no Status: %s", tt.method, tt.path, body)
		}
	}
}

// TestServe: a watch passes event by event, an API server that is away is said, and the end of the
// socket ends what passes.
func TestServe(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir, err := os.MkdirTemp("", "pa") // short, as paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	server := upstream(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	h := Handler(Config{Plugin: "p", Server: server, Transport: transport, Logger: log, Rules: func() []v1alpha1.PluginPermission {
		return []v1alpha1.PluginPermission{permission("", "", "services", "list", "watch")}
	}})
	go func() { ended <- Serve(ctx, ln, h, log) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://pintle.local/api/v1/services?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(r.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "event\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	if _, err := lines.ReadString('\n'); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the watch goes on: %v", err)
	}
	_ = r.Body.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	away := Handler(Config{Plugin: "p", Server: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Transport: transport, Logger: log, Rules: func() []v1alpha1.PluginPermission {
		return []v1alpha1.PluginPermission{permission("", "", "services", "list")}
	}})
	w := httptest.NewRecorder()
	away.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://pintle.local/api/v1/services", http.NoBody))
	if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "API server does not answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
