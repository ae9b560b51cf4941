package api

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/auth/review"
	"pintle.dev/pintle/kernel/api/fielderrors"
	"pintle.dev/pintle/kernel/api/resources"
)

// storage lists what is served under each group version: the kinds with their
// status and scale, and the subresources with behaviour of their own.
func (s *Server) storage(encoding runtime.NegotiatedSerializer) map[schema.GroupVersion]map[string]rest.Storage {
	out := map[schema.GroupVersion]map[string]rest.Storage{}
	put := func(gv schema.GroupVersion, path string, r rest.Storage) {
		if out[gv] == nil {
			out[gv] = map[string]rest.Storage{}
		}
		out[gv][path] = r
	}
	for gr, k := range s.kinds {
		if gr == corev1.Resource("namespaces") {
			s.stores[gr].ShouldDeleteDuringUpdate = namespaceGoes
		}
		store := s.stores[gr]
		store.CreateStrategy, store.UpdateStrategy = fielderrors.Create(store.CreateStrategy), fielderrors.Update(store.UpdateStrategy)
		main := &kindREST{
			Store: store, shortNames: k.ShortNames, categories: k.Categories,
			gv: k.GVK.GroupVersion(), sent: sentLists(k, s.stores[gr], encoding),
		}
		if gr == podResource.GroupResource() {
			main.deleted = asStored // a copy of the stored pod, marked
		}
		for _, gv := range append([]schema.GroupVersion{k.GVK.GroupVersion()}, k.Also...) {
			put(gv, k.Resource, main)
			if k.Status != nil {
				put(gv, k.Resource+"/status", newSubREST(s.stores[gr], k.Status))
			}
			if k.Scale != nil {
				put(gv, k.Resource+"/scale", &scaleREST{store: s.stores[gr], access: *k.Scale, gvk: k.GVK, gr: gr})
			}
			for name, strategy := range k.Subresources {
				put(gv, k.Resource+"/"+name, newSubREST(s.stores[gr], strategy))
			}
			s.special(k, main, func(path string, r rest.Storage) { put(gv, path, r) })
		}
	}
	for resource, r := range review.Authentication(s.authn, s.audiences) {
		put(authenticationv1.SchemeGroupVersion, resource, r)
	}
	for resource, r := range review.Authorization(s.authz, s.authz) {
		put(authorizationv1.SchemeGroupVersion, resource, r)
	}
	return out
}

// special adds what is particular to a kind.
func (s *Server) special(k resources.Kind, main *kindREST, put func(string, rest.Storage)) {
	pods := func(ctx context.Context, name string) (*corev1.Pod, error) {
		return inNamespace[*corev1.Pod](ctx, s, corev1.Resource("pods"), name)
	}
	stream := func(verb string, options func() runtime.Object) rest.Storage {
		return &podStreamREST{pod: pods, kubelets: s.kubelets, authz: s.authz, verb: verb, options: options}
	}
	switch groupResource(k) {
	case corev1.Resource("namespaces"):
		put("namespaces", newNamespaceREST(main))
	case corev1.Resource("pods"):
		put("bindings", &legacyBindingREST{s.binding})
		put("pods/binding", s.binding)
		put("pods/eviction", &evictionREST{pods: with(main.Store, k.Status), budgets: s.client.PolicyV1()})
		put("pods/log", &podLogREST{pod: pods, kubelets: s.kubelets})
		put("pods/exec", stream("exec", func() runtime.Object { return &corev1.PodExecOptions{} }))
		put("pods/attach", stream("attach", func() runtime.Object { return &corev1.PodAttachOptions{} }))
		put("pods/portforward", stream("portForward", func() runtime.Object { return &corev1.PodPortForwardOptions{} }))
		put("pods/proxy", &proxyREST{podLocation(pods, s.kubelets), func() runtime.Object { return &corev1.PodProxyOptions{} }, nil})
	case corev1.Resource("nodes"):
		put("nodes/proxy", &proxyREST{nodeLocation(s.kubelets), func() runtime.Object { return &corev1.NodeProxyOptions{} }, mayStream(s.authz)})
	case corev1.Resource("services"):
		put("services", &serviceREST{main})
		put("services/proxy", &proxyREST{serviceLocation(s, s.kubelets), func() runtime.Object { return &corev1.ServiceProxyOptions{} }, nil})
	case batchv1.Resource("jobs"):
		put("jobs", &jobREST{main})
	case corev1.Resource("serviceaccounts"):
		put("serviceaccounts/token", s.tokens)
	}
}
