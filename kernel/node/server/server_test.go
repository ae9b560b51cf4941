package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// TestGate: KLT-35: nothing is anonymous; the API's own client and system:masters pass, others are asked about.
func TestGate(t *testing.T) {
	client := fake.NewClientset()
	reviews := 0
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if r.Spec.Token != "bad" {
			r.Status.Authenticated, r.Status.User.Username = true, r.Spec.Token
		}
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		reviews++
		r := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		at := r.Spec.ResourceAttributes
		r.Status.Allowed = r.Spec.User == "stats-reader" && at.Resource == "nodes" && at.Subresource == "stats" && at.Verb == "get" && at.Name == "n"
		return true, r, nil
	})
	g := newGate(Config{NodeName: "n", APIClients: []string{"kube-apiserver-kubelet-client"}}, client)
	h := g.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	cert := func(name string, verified bool, groups ...string) *tls.ConnectionState {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}, NotAfter: time.Now().Add(time.Hour)}
		s := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
		if verified {
			s.VerifiedChains = [][]*x509.Certificate{{c}}
		}
		return s
	}
	for _, c := range []struct {
		name  string
		tls   *tls.ConnectionState
		token string
		path  string
		want  int
	}{
		{"nobody", nil, "", "/pods", http.StatusUnauthorized},
		{"nobody, health", nil, "", "/healthz", http.StatusUnauthorized},
		{"api client", cert("kube-apiserver-kubelet-client", true), "", "/exec/a/b/c", http.StatusOK},
		{"same name, unverified", cert("kube-apiserver-kubelet-client", false), "", "/pods", http.StatusUnauthorized},
		{"masters", cert("root", true, "system:masters"), "", "/pods", http.StatusOK},
		{"somebody of the cluster", cert("system:node:other", true, "system:nodes"), "", "/containerLogs/a/b/c", http.StatusForbidden},
		{"bad token", nil, "bad", "/pods", http.StatusUnauthorized},
		{"allowed subresource", nil, "stats-reader", "/stats/summary", http.StatusOK},
		{"another subresource", nil, "stats-reader", "/exec/a/b/c", http.StatusForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			r.TLS = c.tls
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Fatalf("%d %s, want %d", w.Code, w.Body, c.want)
			}
		})
	}
	before := reviews
	r := httptest.NewRequest(http.MethodGet, "/stats/summary", nil)
	r.Header.Set("Authorization", "Bearer stats-reader")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if reviews != before {
		t.Error("a decision is not remembered")
	}
}

// TestStreamsNeedCreate: whoever may get nodes/proxy reads pages and gets into no
// container, whatever the method and however the path is written; whoever may
// create does. The paths are those of the real server.
func TestStreamsNeedCreate(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		r.Status.Authenticated, r.Status.User.Username = true, r.Spec.Token
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		at := r.Spec.ResourceAttributes
		r.Status.Allowed = at.Subresource == "proxy" && at.Verb == r.Spec.User // the users are named by their verb
		return true, r, nil
	})
	s := New(Config{NodeName: "n"}, Deps{Client: client, Logger: slog.New(slog.DiscardHandler)})
	ask := func(user, method, path, upgrade string) int {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+user)
		if upgrade != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", upgrade)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	for _, path := range []string{
		"/exec/ns/pod/c?command=id&output=1", "/exec/ns/pod/uid/c", "/attach/ns/pod/c", "/portForward/ns/pod", "/portForward/ns/pod/uid",
		"//exec/ns/pod/c", "/./exec/ns/pod/c", "/pods/../exec/ns/pod/c", "/%65xec/ns/pod/c", "/exec%2Fns/pod/c", "/run/ns/pod/c", "/cri/exec/token",
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			for _, upgrade := range []string{"", "websocket", "SPDY/3.1"} {
				if code := ask("get", method, path, upgrade); code != http.StatusForbidden {
					t.Errorf("get nodes/proxy asks %s %s (%s): %d", method, path, upgrade, code)
				}
			}
		}
	}
	if code := ask("get", "GET", "/containerLogs/ns/pod/c", "websocket"); code != http.StatusForbidden {
		t.Errorf("an upgrade of another path: %d", code)
	}
	// Past the gate the handler is missing its pods: only the gate is of interest.
	for _, method := range []string{"GET", "POST"} {
		func() {
			defer func() { recover() }()
			if code := ask("create", method, "/exec/ns/pod/c", ""); code == http.StatusForbidden {
				t.Errorf("create nodes/proxy asks %s: %d", method, code)
			}
		}()
	}
	if code := ask("get", "GET", "/nothing", ""); code != http.StatusNotFound {
		t.Errorf("a page: %d", code)
	}
}

// TestIdleConnectionsEnd: a client that is refused can not hold connections for ever.
func TestIdleConnectionsEnd(t *testing.T) {
	s := New(Config{}, Deps{Logger: slog.New(slog.DiscardHandler)})
	if s.http.IdleTimeout <= 0 || s.http.ReadHeaderTimeout <= 0 {
		t.Fatalf("idle %s, header %s: no limit", s.http.IdleTimeout, s.http.ReadHeaderTimeout)
	}
}

// TestLogOptions: parameters of a log request, and what is refused.
func TestLogOptions(t *testing.T) {
	for query, ok := range map[string]bool{
		"": true, "follow=true&tailLines=10&timestamps=1&previous=false": true, "tailLines=all": true, "limitBytes=1": true, "sinceSeconds=5": true,
		"sinceTime=2026-01-01T00:00:00Z": true, "stream=Stdout": true,
		"follow=maybe": false, "tailLines=-1": false, "limitBytes=0": false, "sinceSeconds=0": false, "sinceTime=yesterday": false,
		"sinceTime=2026-01-01T00:00:00Z&sinceSeconds=5": false, "stream=Both": false, "stream=Stdout&tailLines=1": false,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := logOptions(q); (err == nil) != ok {
			t.Errorf("%s: %v", query, err)
		}
	}
}
