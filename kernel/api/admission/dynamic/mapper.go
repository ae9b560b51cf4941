package dynamic

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// NewMapper returns a mapper over discovery, which is asked when it is needed, and
// anew for each kind that it did not know: kinds come with custom resources.
func NewMapper(client discovery.DiscoveryInterface) meta.RESTMapper {
	return mapper{restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}
}

type mapper struct{ meta.ResettableRESTMapper }

// RESTMapping implements meta.RESTMapper.
func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := m.ResettableRESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		m.Reset()
		return m.ResettableRESTMapper.RESTMapping(kind, versions...)
	}
	return found, err
}

// KindsFor implements meta.RESTMapper.
func (m mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	found, err := m.ResettableRESTMapper.KindsFor(resource)
	if meta.IsNoMatchError(err) {
		m.Reset()
		return m.ResettableRESTMapper.KindsFor(resource)
	}
	return found, err
}
