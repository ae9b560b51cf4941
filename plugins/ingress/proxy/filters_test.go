package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/plugins/ingress/routes"
)

// TestChangePath is the specification's table of prefixes that are replaced, and what comes
// besides: dots, escapes, two slashes.
func TestChangePath(t *testing.T) {
	for _, c := range []struct{ prefix, value, asked, want string }{
		{"/foo", "/xyz", "/foo/bar", "/xyz/bar"},
		{"/foo", "/xyz/", "/foo/bar", "/xyz/bar"},
		{"/foo/", "/xyz", "/foo/bar", "/xyz/bar"},
		{"/foo/", "/xyz/", "/foo/bar", "/xyz/bar"},
		{"/foo", "/xyz", "/foo", "/xyz"},
		{"/foo", "/xyz", "/foo/", "/xyz/"},
		{"/foo", "/", "/foo/bar", "/bar"},
		{"/foo", "/", "/foo/", "/"},
		{"/foo", "/", "/foo", "/"},
		{"/", "/xyz", "/bar", "/xyz/bar"},
		{"/", "/xyz", "/", "/xyz/"},
		{"/foo", "/xyz", "/foo/a%2Fb", "/xyz/a%2Fb"},
		{"/foo", "/xyz", "/a/../foo/b", "/xyz/b"},
		{"/foo", "/xyz", "/foo/../foo/c", "/xyz/c"},
		{"/foo", "/xyz", "/%66oo/bar", "/xyz/bar"},
		{"/", "/xyz", "/%2e%2e/admin", "/xyz/admin"},
		{"/", "/xyz", "/a/%2e%2e/%2E%2E/admin", "/xyz/admin"},
		{"/foo", "/xyz", "/foo/%2e%2e/foo/b", "/xyz/b"},
		{"/foo", "/xyz", "/foo%2Fbar", "/xyz/bar"},
	} {
		u, err := url.Parse("http://a.test" + c.asked)
		if err != nil {
			t.Fatal(err)
		}
		changePath(u, &routes.Rule{Path: c.prefix}, &routes.PathChange{Value: c.value})
		if got := u.EscapedPath(); got != c.want {
			t.Errorf("%s with %s in place of %s is %s, want %s", c.asked, c.value, c.prefix, got, c.want)
		}
	}
	u := &url.URL{Path: "/a/b"}
	if changePath(u, &routes.Rule{Path: "/a"}, &routes.PathChange{Whole: true, Value: "/c"}); u.Path != "/c" {
		t.Errorf("in place of all: %s", u.Path)
	}
}

// TestRedirects: which place an answer names.
func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		to          routes.Redirect
		asked, want string
		port        int
	}{
		{routes.Redirect{Scheme: "https", Status: 301}, "/a?q=1", "https://a.test/a?q=1", 80},
		{routes.Redirect{Host: "b.test", Status: 302}, "/a", "http://b.test/a", 80},
		{routes.Redirect{Host: "b.test", Status: 302}, "/a", "http://b.test:8080/a", 8080},
		{routes.Redirect{Port: 8443, Scheme: "https", Status: 308}, "/a", "https://a.test:8443/a", 80},
		{routes.Redirect{Port: 443, Scheme: "https", Status: 308}, "/a", "https://a.test/a", 8080},
		{routes.Redirect{Path: &routes.PathChange{Whole: true, Value: "/b"}, Status: 307}, "/a", "http://a.test/b", 80},
		// Two slashes name no other host.
		{routes.Redirect{Scheme: "https", Status: 301}, "//evil.test/", "https://a.test//evil.test/", 80},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://a.test"+c.asked, nil)
		redirect(w, r, &routes.Rule{Path: "/", Action: &routes.Action{Redirect: &c.to}}, "a.test", c.port)
		if got := w.Header().Get("Location"); w.Code != c.to.Status || got != c.want {
			t.Errorf("%+v: %d to %s, want %s", c.to, w.Code, got, c.want)
		}
	}
}

// listening attaches a listener for all hosts at the proxy's port of HTTP, which leads to a
// backend by an action.
func (b *begun) listening(t *testing.T, name string, a *routes.Action) {
	t.Helper()
	_, port, err := net.SplitHostPort(b.http)
	if err != nil {
		t.Fatal(err)
	}
	l := &routes.Listener{Namespace: name}
	if l.Port, err = net.LookupPort("tcp", port); err != nil {
		t.Fatal(err)
	}
	table := table(map[string]service{})
	l.Hostname = name + ".test"
	a.Namespace = name
	l.Add(l.Hostname, &routes.Rule{Path: "/", Action: a})
	table.Attach([]*routes.Listener{l})
	b.Use(table)
}

// TestActions: headers, host and path are changed for the backend and for the client, and a
// rule without a backend is answered 500.
func TestActions(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Gone", "1")
		echo{}.ServeHTTP(w, r)
	}))
	defer server.Close()
	b := begin(t, "{}", map[string]service{})
	to := &routes.Backend{Namespace: "g", Payer: "g", Scheme: routes.HTTP, Endpoints: []string{server.Listener.Addr().String()}}
	b.listening(t, "g", &routes.Action{
		To:       []routes.Weighted{{Backend: to, Weight: 1, Request: []routes.HeaderChange{{Name: "X-Backend", Value: "b"}}}},
		Request:  []routes.HeaderChange{{Name: "X-Set", Value: "s"}, {Name: "X-Add", Value: "two", Add: true}, {Name: "X-Out", Remove: true}},
		Response: []routes.HeaderChange{{Name: "X-Gone", Remove: true}, {Name: "X-New", Value: "n"}},
		Rewrite:  &routes.Rewrite{Host: "inside.test", Path: &routes.PathChange{Value: "/in"}},
	})
	ask := func() *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.http+"/a?q=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "g.test"
		r.Header.Set("X-Set", "other")
		r.Header.Set("X-Add", "one")
		r.Header.Set("X-Out", "1")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	response := ask()
	var got echo
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Host != "inside.test" || got.URI != "/in/a?q=1" || got.Header.Get("X-Set") != "s" || strings.Join(got.Header["X-Add"], ",") != "one,two" ||
		got.Header.Get("X-Out") != "" || got.Header.Get("X-Backend") != "b" || got.Header.Get("X-Forwarded-Host") != "g.test" {
		t.Errorf("the backend sees %+v", got)
	}
	if response.Header.Get("X-Gone") != "" || response.Header.Get("X-New") != "n" {
		t.Errorf("the client sees %v", response.Header)
	}
	b.listening(t, "g", &routes.Action{})
	if r := ask(); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("without a backend: %d", r.StatusCode)
	}
}

// TestActionTimeout: a backend that is silent for longer than its rule says is answered 504.
func TestActionTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	b := begin(t, "{}", map[string]service{})
	to := &routes.Backend{Namespace: "g", Payer: "g", Scheme: routes.HTTP, Endpoints: []string{server.Listener.Addr().String()}}
	b.listening(t, "g", &routes.Action{To: []routes.Weighted{{Backend: to, Weight: 1}}, Timeout: 20 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.http+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "g.test"
	r.Header.Set("Connection", "upgrade")
	r.Header.Set("Upgrade", "websocket") // to ask for an upgrade is none
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("answered %d", response.StatusCode)
	}
}
