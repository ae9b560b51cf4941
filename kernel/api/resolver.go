package api

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/kernel/api/serviceresolver"
)

// services resolves those that webhooks and other API servers are named by.
func (s *Server) services() *serviceresolver.Resolver {
	return serviceresolver.New(storedServices{s}, s.cfg.RouteToEndpoints)
}

// storedServices implements serviceresolver.Objects by what the stores have in memory.
type storedServices struct{ server *Server }

// inMemory is the resourceVersion of reads that a cache may answer.
const inMemory = "0"

func (r storedServices) Service(namespace, name string) (*corev1.Service, error) {
	gr := corev1.Resource("services")
	obj, err := r.server.stores[gr].Get(asRequest(context.Background(), "get", gr.WithVersion("v1"), namespace, name), name, &metav1.GetOptions{ResourceVersion: inMemory})
	if err != nil {
		return nil, err
	}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("get service %s/%s: unexpected type %T", namespace, name, obj)
	}
	return service, nil
}

func (r storedServices) EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	gr := discoveryv1.Resource("endpointslices")
	store, ok := r.server.stores[gr]
	if !ok {
		return nil, fmt.Errorf("service %s/%s has no endpoints: %s is not served (api.runtimeConfig)", namespace, service, gr)
	}
	list, err := store.List(asRequest(context.Background(), "list", gr.WithVersion("v1"), namespace, ""), &internalversion.ListOptions{
		LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}), ResourceVersion: inMemory,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint slices of service %s/%s: %w", namespace, service, err)
	}
	var slices []*discoveryv1.EndpointSlice
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			return fmt.Errorf("endpoint slices of service %s/%s: unexpected type %T", namespace, service, obj)
		}
		slices = append(slices, slice)
		return nil
	})
	return slices, err
}
