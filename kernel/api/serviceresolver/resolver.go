package serviceresolver

import (
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apiserver/pkg/util/proxy"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Objects reads what a resolution goes by. What it returns is not changed.
type Objects interface {
	Service(namespace, name string) (*corev1.Service, error)
	// EndpointSlices are those of a Service; none is no error.
	EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error)
}

// Resolver implements the service resolvers of webhooks and of kube-aggregator.
type Resolver struct {
	objects   Objects
	endpoints bool
}

// New makes a Resolver; with endpoints it goes past cluster IPs.
func New(objects Objects, endpoints bool) *Resolver {
	return &Resolver{objects: objects, endpoints: endpoints}
}

// ResolveEndpoint returns the address of a port of a Service.
func (r *Resolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	service, err := r.objects.Service(namespace, name)
	if err != nil {
		return nil, err
	}
	// Upstream's rules read a lister: of this one Service.
	found := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := found.Add(service); err != nil {
		return nil, fmt.Errorf("resolve service %s/%s: %w", namespace, name, err)
	}
	services := corelisters.NewServiceLister(found)
	if r.endpoints && service.Spec.Type != corev1.ServiceTypeExternalName {
		return proxy.ResolveEndpoint(services, slices{r.objects}, namespace, name, port)
	}
	return proxy.ResolveCluster(services, namespace, name, port)
}

// slices implements proxy.EndpointSliceGetter.
type slices struct{ objects Objects }

func (s slices) GetEndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	return s.objects.EndpointSlices(namespace, service)
}
