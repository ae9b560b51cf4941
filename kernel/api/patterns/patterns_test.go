package patterns

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
)

// routed is a container with routes as the API's, each of which says its name and
// parameters.
func routed() *restful.Container {
	c := restful.NewContainer()
	c.Router(restful.CurlyRouter{})
	for _, root := range []string{"/api/v1", "/apis/apps/v1"} {
		ws := new(restful.WebService)
		ws.Path(root)
		for _, path := range []string{"/namespaces/{namespace}/pods", "/namespaces/{namespace}/pods/{name}", "/namespaces/{namespace}/pods/{name}/proxy/{path:*}", "/pods"} {
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				ws.Route(ws.Method(method).Path(path).To(func(req *restful.Request, res *restful.Response) {
					fmt.Fprintf(res, "%s %s %s %v", method, root, path, req.PathParameters())
				}))
			}
		}
		c.Add(ws)
	}
	return c
}

// Requests find the same routes and parameters without the expressions.
func TestLetGo(t *testing.T) {
	whole, without := routed(), routed()
	if n := LetGo(without); n != 16 {
		t.Errorf("%d expressions are found, want 16", n)
	}
	for _, service := range without.RegisteredWebServices() {
		routes := service.Routes()
		for i := range routes {
			if m, ok := matcherOf(&routes[i]).Interface().(*regexp.Regexp); !ok || m.MatchString("/pods") {
				t.Errorf("%s has %v", routes[i].Path, m)
			}
		}
	}
	for _, path := range []string{
		"/api/v1/pods", "/api/v1/namespaces/a/pods", "/apis/apps/v1/namespaces/a/pods/b", "/api/v1/namespaces/a/pods/b/proxy/c/d", "/api/v1/namespaces/a/pods/b/other",
		"/api/v1/none", "/apis/apps/v2/pods", "/api/v1/namespaces/a/pods/", "/",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodOptions} {
			answer := func(c *restful.Container) string {
				w := httptest.NewRecorder()
				c.ServeHTTP(w, httptest.NewRequest(method, path, nil))
				return fmt.Sprint(w.Code, " ", w.Body)
			}
			if got, want := answer(without), answer(whole); got != want {
				t.Errorf("%s %s: %q, want %q", method, path, got, want)
			}
		}
	}
}
