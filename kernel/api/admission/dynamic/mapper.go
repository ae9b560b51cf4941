package dynamic

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// NewMapper returns a mapper over discovery, which is asked when it is needed, and
// anew for each kind that it did not know: kinds come with custom resources.
func NewMapper(client discovery.DiscoveryInterface) meta.RESTMapper {
	return newMapper(client, clock.RealClock{})
}

func newMapper(client discovery.DiscoveryInterface, now clock.PassiveClock) meta.RESTMapper {
	return mapper{
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)),
		flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(1, 1, now),
	}
}

type mapper struct {
	meta.ResettableRESTMapper
	// again lets who may only write objects have discovery asked anew once a second.
	again flowcontrol.PassiveRateLimiter
}

// RESTMappings implements meta.RESTMapper. Owner references are looked up by it:
// everybody may name kinds that are none. It may not know a kind for a second.
func (m mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := m.ResettableRESTMapper.RESTMappings(kind, versions...)
	if (meta.IsNoMatchError(err) || err == nil && len(found) == 0) && m.again.TryAccept() {
		m.Reset()
		return m.ResettableRESTMapper.RESTMappings(kind, versions...)
	}
	return found, err
}

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
