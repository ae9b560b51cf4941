package layer2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// clients returns clients of the core and the discovery group over a unix socket, which is
// the credential.
func clients(socket string) (core, discovery rest.Interface, err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		return nil, nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config := rest.Config{
		Host: "http://pintle.local", UserAgent: "pintle-plugin/" + Name, QPS: -1, DisableCompression: true,
		ContentConfig: rest.ContentConfig{
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
			ContentType:          runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + ",application/json",
		},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}
	one, two := config, config
	one.APIPath, one.GroupVersion = "/api", &corev1.SchemeGroupVersion
	two.APIPath, two.GroupVersion = "/apis", &discoveryv1.SchemeGroupVersion
	if core, err = rest.RESTClientFor(&one); err != nil {
		return nil, nil, fmt.Errorf("client of the API: %w", err)
	}
	if discovery, err = rest.RESTClientFor(&two); err != nil {
		return nil, nil, fmt.Errorf("client of the API: %w", err)
	}
	return core, discovery, nil
}

// source is what the plugin knows of the cluster. Nodes are watched while a load balancer
// has an address of the network, endpoint slices while such a service wants local nodes. One
// goroutine calls its methods.
type source struct {
	core, discovery rest.Interface
	changed         func()

	services, nodes, slices *watched
}

// watched is a store with the goroutine that fills it.
type watched struct {
	store  cache.Store
	synced func() bool
	end    context.CancelFunc
	done   sync.WaitGroup
}

func newSource(ctx context.Context, core, discovery rest.Interface, changed func()) *source {
	s := &source{core: core, discovery: discovery, changed: changed}
	s.services = s.watch(ctx, core, "services", fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)), &corev1.Service{})
	return s
}

func (s *source) watch(ctx context.Context, client rest.Interface, resource string, which fields.Selector, object runtime.Object) *watched {
	ctx, cancel := context.WithCancel(ctx)
	informer := cache.NewSharedIndexInformerWithOptions(cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, which), object, cache.SharedIndexInformerOptions{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.changed() }, DeleteFunc: func(any) { s.changed() },
		UpdateFunc: func(any, any) { s.changed() },
	})
	// Neither fails before a start.
	utilruntime.Must(errors.Join(err, informer.SetTransform(slim), informer.SetWatchErrorHandlerWithContext(func(of context.Context, r *cache.Reflector, err error) {
		if ctx.Err() == nil { // an end is no fault
			cache.DefaultWatchErrorHandler(of, r, err)
		}
	})))
	w := &watched{store: informer.GetStore(), synced: informer.HasSynced, end: cancel}
	w.done.Go(func() { informer.RunWithContext(ctx) })
	w.done.Go(func() { // the first list may be empty, and then no handler is called
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			s.changed()
		}
	})
	return w
}

func (w *watched) stop() {
	if w != nil {
		w.end()
		w.done.Wait()
	}
}

// wait ends the watches and waits for them.
func (s *source) wait() {
	s.services.stop()
	s.nodes.stop()
	s.slices.stop()
}

// cluster is what is known of networks, and false while a first list is awaited.
func (s *source) cluster(ctx context.Context, networks []netip.Prefix) (cluster, bool) {
	if !s.services.synced() {
		return cluster{}, false
	}
	c := cluster{services: objects[*corev1.Service](s.services)}
	some, wanted := false, false
	for _, network := range networks {
		for _, service := range addressesOn(network, c.services) {
			some, wanted = true, wanted || local(service)
		}
	}
	if !some {
		s.nodes.stop()
		s.slices.stop()
		s.nodes, s.slices = nil, nil
		return c, true
	}
	if s.nodes == nil {
		s.nodes = s.watch(ctx, s.core, "nodes", fields.Everything(), &corev1.Node{})
	}
	switch {
	case wanted && s.slices == nil:
		s.slices = s.watch(ctx, s.discovery, "endpointslices", fields.Everything(), &discoveryv1.EndpointSlice{})
	case !wanted:
		s.slices.stop()
		s.slices = nil
	}
	if !s.nodes.synced() || wanted && !s.slices.synced() {
		return cluster{}, false
	}
	c.nodes = objects[*corev1.Node](s.nodes)
	if wanted {
		c.slices = objects[*discoveryv1.EndpointSlice](s.slices)
	}
	return c, true
}

func objects[T any](w *watched) []T {
	var list []T
	for _, o := range w.store.List() {
		if t, ok := o.(T); ok {
			list = append(list, t)
		}
	}
	return list
}

// slim leaves of an object what plans look at.
func slim(o any) (any, error) {
	meta := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp}
	}
	only := func(labels map[string]string, key string) map[string]string {
		if value, has := labels[key]; has {
			return map[string]string{key: value}
		}
		return nil
	}
	switch v := o.(type) {
	case *corev1.Service:
		s := &corev1.Service{ObjectMeta: meta(v.ObjectMeta), Status: corev1.ServiceStatus{LoadBalancer: v.Status.LoadBalancer}}
		s.Spec.Type, s.Spec.LoadBalancerClass, s.Spec.ExternalTrafficPolicy = v.Spec.Type, v.Spec.LoadBalancerClass, v.Spec.ExternalTrafficPolicy
		return s, nil
	case *corev1.Node:
		n := &corev1.Node{ObjectMeta: meta(v.ObjectMeta), Status: corev1.NodeStatus{Addresses: v.Status.Addresses}}
		n.Labels = only(v.Labels, corev1.LabelNodeExcludeBalancers)
		n.Status.Conditions = slices.DeleteFunc(slices.Clone(v.Status.Conditions), func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })
		return n, nil
	case *discoveryv1.EndpointSlice:
		e := &discoveryv1.EndpointSlice{ObjectMeta: meta(v.ObjectMeta)}
		e.Labels = only(v.Labels, discoveryv1.LabelServiceName)
		for _, one := range v.Endpoints {
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{NodeName: one.NodeName, Conditions: one.Conditions})
		}
		return e, nil
	}
	return o, nil
}
