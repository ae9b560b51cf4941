package api

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/enablement"
)

// enabled leaves of what could be served what is to be, subresources with their resource.
func (s *Server) enabled(all map[schema.GroupVersion]map[string]rest.Storage) (map[schema.GroupVersion]map[string]rest.Storage, error) {
	there := []schema.GroupVersionResource{apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")}
	for gv, resources := range all {
		for path := range resources {
			if !strings.Contains(path, "/") {
				there = append(there, gv.WithResource(path))
			}
		}
	}
	s.possible = there
	served, err := enablement.New(there, s.cfg.RuntimeConfig)
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupVersion]map[string]rest.Storage{}
	for gv, resources := range all {
		for path, storage := range resources {
			resource, _, _ := strings.Cut(path, "/")
			if !served.ResourceEnabled(gv.WithResource(resource)) {
				continue
			}
			if out[gv] == nil {
				out[gv] = map[string]rest.Storage{}
			}
			out[gv][path] = storage
		}
	}
	return out, nil
}
