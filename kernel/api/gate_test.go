package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A gate is told of what RBAC forbids, and of no other refusal with that code.
func TestGateTellsOfRights(t *testing.T) {
	decide := func(d authorizer.Decision) notingForbidden {
		return notingForbidden{authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) { return d, "", nil })}
	}
	for name, test := range map[string]struct {
		decision authorizer.Decision
		code     int
		want     []string
	}{
		"allowed":                         {authorizer.DecisionAllow, http.StatusOK, nil},
		"forbidden by RBAC":               {authorizer.DecisionNoOpinion, http.StatusForbidden, []string{"create pods"}},
		"denied":                          {authorizer.DecisionDeny, http.StatusForbidden, []string{"create pods"}},
		"forbidden by a quota":            {authorizer.DecisionAllow, http.StatusForbidden, nil},
		"something is not allowed to it":  {authorizer.DecisionNoOpinion, http.StatusCreated, nil},
		"what it asks for does not exist": {authorizer.DecisionAllow, http.StatusNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			g := &Gate{}
			g.Set(0, func(what string) { told = append(told, what) })
			chain := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				_, _, _ = decide(test.decision).Authorize(req.Context(), authorizer.AttributesRecord{})
				w.WriteHeader(test.code)
			})
			g.serve(chain, httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/d/pods", nil))
			if !slices.Equal(told, test.want) {
				t.Errorf("told %q, want %q", told, test.want)
			}
		})
	}
}

// A gate that has a time lets nothing through after it, and cuts off what is under
// way; another time opens it again.
func TestGateCloses(t *testing.T) {
	g := &Gate{}
	ask := func(handler http.HandlerFunc) int {
		w := httptest.NewRecorder()
		g.serve(handler, w, httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/d/pods", nil))
		return w.Code
	}
	passes := func(http.ResponseWriter, *http.Request) {}
	if code := ask(passes); code != http.StatusOK {
		t.Errorf("code %d of a gate without a time", code)
	}
	leading, lost := context.WithCancel(t.Context())
	g.While(leading)
	code := ask(func(w http.ResponseWriter, req *http.Request) {
		if req.Context().Err() != nil {
			t.Error("cut off while its kernel leads")
		}
		lost()
		<-req.Context().Done() // as what waits for the store does
		w.WriteHeader(http.StatusGatewayTimeout)
	})
	if code != http.StatusGatewayTimeout {
		t.Errorf("code %d of a request under way", code)
	}
	if code := ask(func(http.ResponseWriter, *http.Request) { t.Error("it came through") }); code != http.StatusServiceUnavailable {
		t.Errorf("code %d after the time, want 503", code)
	}
	again, end := context.WithCancel(t.Context())
	defer end()
	g.While(again)
	if code := ask(passes); code != http.StatusOK {
		t.Errorf("code %d in another time", code)
	}
}
