package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestRouterChoosesAsCurly compares the remembered choice with the library's,
// for requests that differ in one thing that decides.
func TestRouterChoosesAsCurly(t *testing.T) {
	ws := (&restful.WebService{}).Path("/api/v1").Produces("application/json", "application/yaml")
	nothing := func(*restful.Request, *restful.Response) {}
	for _, path := range []string{
		"/namespaces/{namespace}/pods", "/namespaces/{namespace}/pods/{name}", "/namespaces/{namespace}/pods/{name}/status",
		"/namespaces/{namespace}/pods/{name}/proxy", "/namespaces/{namespace}/pods/{name}/proxy/{path:*}", "/pods",
		"/watch/pods", "/watch/namespaces/{namespace}/pods", "/namespaces", "/namespaces/{name}", "/nodes/{name}",
	} {
		ws.Route(ws.GET(path).To(nothing)).Route(ws.DELETE(path).To(nothing))
		ws.Route(ws.PATCH(path).Consumes("application/merge-patch+json").To(nothing))
	}
	services := []*restful.WebService{ws}
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	r := &router{}
	for range 2 { // the second time from memory
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPatch, http.MethodPut} {
			for _, accept := range []string{"", "application/yaml", "image/png", "application/json;as=Table"} {
				for _, path := range []string{
					"/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods", "/api/v1/namespaces/a/pods/x", "/api/v1/namespaces/b/pods/y/status",
					"/api/v1/namespaces/a/pods/x/proxy", "/api/v1/namespaces/a/pods/x/proxy/a/b", "/api/v1/namespaces/a/pods/x/proxy/a/b/c",
					"/api/v1/pods", "/api/v1/watch/pods", "/api/v1/watch/namespaces/a/pods", "/api/v1/namespaces", "/api/v1/namespaces/a",
					"/api/v1/nodes/n", "/api/v1/nodes", "/api/v1/namespaces//pods", "/api/v1/pods//", "/api/v1/pods/", "/api/v1/watch/nodes/n", "/healthz",
				} {
					req := httptest.NewRequest(method, path, nil)
					req.Header.Set("Accept", accept)
					if method == http.MethodPatch {
						req.Header.Set("Content-Type", "application/merge-patch+json")
					}
					info, err := infos.NewRequestInfo(req)
					if err != nil {
						t.Fatal(err)
					}
					req = req.WithContext(request.WithRequestInfo(req.Context(), info))
					_, want, wantErr := (restful.CurlyRouter{}).SelectRoute(services, req)
					_, got, gotErr := r.SelectRoute(services, req)
					if (wantErr == nil) != (gotErr == nil) || (wantErr != nil && wantErr.Error() != gotErr.Error()) {
						t.Fatalf("%s %s (%s): error %v, want %v", method, path, accept, gotErr, wantErr)
					}
					if want != nil && (got.Path != want.Path || got.Method != want.Method) {
						t.Errorf("%s %s: route %s %s, want %s %s", method, path, got.Method, got.Path, want.Method, want.Path)
					}
				}
			}
		}
	}
	if r.count.Load() == 0 {
		t.Error("nothing is remembered")
	}
}

// TestRouterRemembersAtMost: clients choose their Accept header.
func TestRouterRemembersAtMost(t *testing.T) {
	ws := (&restful.WebService{}).Path("/api/v1").Produces("*/*")
	ws.Route(ws.GET("/pods").To(func(*restful.Request, *restful.Response) {}))
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api"), GrouplessAPIPrefixes: sets.NewString("api")}
	r := &router{}
	accept := []byte("text/aaaa")
	for i := range maxRoutes + 10 {
		for j, n := len(accept)-1, i; j > 4; j, n = j-1, n/26 {
			accept[j] = byte('a' + n%26)
		}
		req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
		req.Header.Set("Accept", string(accept))
		info, err := infos.NewRequestInfo(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.SelectRoute([]*restful.WebService{ws}, req.WithContext(request.WithRequestInfo(req.Context(), info))); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.count.Load(); n != maxRoutes {
		t.Errorf("%d shapes are remembered, at most %d may be", n, maxRoutes)
	}
}
