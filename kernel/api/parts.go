package api

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// parts is what New builds from the configuration.
type parts struct {
	scheme  *runtime.Scheme
	stores  map[schema.GroupResource]*genericregistry.Store
	generic *genericapiserver.GenericAPIServer
	binding *bindingREST
	port    int
	stop    chan struct{}
}

// handler is the whole chain, or nil while the server does not run.
func (s *Server) handler() http.Handler {
	if s.generic == nil {
		return nil
	}
	return s.generic.Handler
}
