package api

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// What router remembers is bounded: clients choose their media types.
const (
	maxRoutes     = 4096
	maxMediaTypes = 256 // bytes of Accept and Content-Type
)

// router remembers which route served requests of one shape: the same kind,
// verb and media types, whatever the names in the path. Comparing a path with
// every route of its group version took a twenty-fifth of the processor time
// of a create. Routes are all installed before the first request.
type router struct {
	restful.CurlyRouter
	known sync.Map // shape to *selection
	count atomic.Int64
}

// shape is what decides the route of a request for a resource.
type shape struct {
	method, contentType, accept       string
	prefix, group, version, kind, sub string
	namespaced, named                 bool
	slashes                           int
}

type selection struct {
	service *restful.WebService
	route   *restful.Route
}

// SelectRoute is restful.RouteSelector.
func (r *router) SelectRoute(services []*restful.WebService, req *http.Request) (*restful.WebService, *restful.Route, error) {
	key, ok := shapeOf(req)
	if !ok {
		return r.CurlyRouter.SelectRoute(services, req)
	}
	if s, ok := r.known.Load(key); ok {
		s := s.(*selection)
		return s.service, s.route, nil
	}
	service, route, err := r.CurlyRouter.SelectRoute(services, req)
	if err == nil && route != nil && r.count.Load() < maxRoutes {
		if _, there := r.known.LoadOrStore(key, &selection{service, route}); !there {
			r.count.Add(1)
		}
	}
	return service, route, err
}

// shapeOf returns the shape of an ordinary request for a resource. Proxied
// paths, whose rest is anybody's, the old /watch/ ones and those with empty
// parts have none.
func shapeOf(req *http.Request) (shape, bool) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || info.Subresource == "proxy" {
		return shape{}, false
	}
	path := req.URL.Path
	if strings.Contains(path, "/watch/") || strings.Contains(path, "//") || strings.HasSuffix(path, "/") {
		return shape{}, false
	}
	contentType, accept := req.Header.Get("Content-Type"), req.Header.Get("Accept")
	if len(contentType)+len(accept) > maxMediaTypes {
		return shape{}, false
	}
	return shape{
		method: req.Method, contentType: contentType, accept: accept,
		prefix: info.APIPrefix, group: info.APIGroup, version: info.APIVersion, kind: info.Resource, sub: info.Subresource,
		namespaced: info.Namespace != "", named: info.Name != "",
		slashes: strings.Count(path, "/"),
	}, true
}
