package api

import (
	"context"
	"net/http"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// A request that is made while another is served, as admission makes them, is one
// of its own: it has no audit event, user or attributes of the other, but ends
// with it.
func TestInProcessRequestIsItsOwn(t *testing.T) {
	caller, end := context.WithCancel(t.Context())
	defer end()
	caller = audit.WithAuditContext(caller)
	if err := audit.AuditContextFrom(caller).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	caller = request.WithUser(caller, &user.DefaultInfo{Name: "somebody"})
	caller = request.WithRequestInfo(caller, &request.RequestInfo{Verb: "create"})
	served := make(chan context.Context, 1)
	ended := make(chan struct{})
	transport := &inprocess{
		identity: func(ctx context.Context) context.Context { return withIdentity(ctx, &user.DefaultInfo{Name: "kernel"}) },
		handler: func() http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served <- r.Context()
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				close(ended)
			})
		},
	}
	req, err := http.NewRequestWithContext(caller, http.MethodGet, "http://inprocess/api/v1/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ctx := <-served
	if audit.AuditContextFrom(ctx) != nil {
		t.Error("the audit context is the caller's: beginning an event in it fails")
	}
	if u, ok := request.UserFrom(ctx); ok {
		t.Errorf("the user is the caller's: %v", u)
	}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		t.Errorf("the attributes are the caller's: %v", info)
	}
	end()
	<-ended
}
