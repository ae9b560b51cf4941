package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/discovery"
	clientrest "k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api/resources/admissionregistration"
)

// maxAsking are the requests of one call that webhooks are asked about at a time.
const maxAsking = 64

// startKey marks requests that the server makes to start.
type startKey struct{}

// startConfig is a client configuration for what the server writes to start, which no
// webhook and no policy is asked about: a server that could not would not start, and
// nobody could take the webhook away.
func (s *Server) startConfig() *clientrest.Config {
	u := authenticated(&user.DefaultInfo{Name: user.APIServerUser, Groups: loopbackGroups})
	cfg := s.ClientConfig(u)
	cfg.WarningHandler = clientrest.NoWarnings{} // Endpoints are deprecated, and served all the same
	cfg.Transport = &inprocess{handler: s.handler, identity: func(ctx context.Context) context.Context {
		return context.WithValue(withIdentity(ctx, u), startKey{}, true)
	}}
	return cfg
}

// discovers is a client of discovery for who gives it no context: it asks nothing any
// more when the server stops, and does not wait for it to be back.
func (s *Server) discovers() (discovery.DiscoveryInterface, error) {
	cfg := s.ClientConfig(&user.DefaultInfo{Name: user.APIServerUser, Groups: loopbackGroups})
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return whileServing{next, s.stopping} })
	return discovery.NewDiscoveryClientForConfig(cfg)
}

type whileServing struct {
	next     http.RoundTripper
	stopping context.Context
}

// RoundTrip implements http.RoundTripper.
func (w whileServing) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.stopping.Err() != nil {
		return nil, errStopping
	}
	res, err := w.next.RoundTrip(req)
	if err == nil {
		res.Header.Del("Retry-After")
	}
	return res, err
}

var errStopping = errors.New("the API server is stopping")

// unasked tells the requests that no webhook and no policy is asked about: those of
// the server's start, and those of the plugin host.
func (s *Server) unasked(ctx context.Context, u user.Info) bool {
	return ctx.Value(startKey{}) != nil && standsFor(user.APIServerUser)(ctx, u) || standsFor(s.cfg.PluginHost)(ctx, u)
}

// newEquivalents knows that the events of both groups are the same objects.
func newEquivalents() runtime.EquivalentResourceRegistry {
	return runtime.NewEquivalentResourceRegistryWithIdentity(func(gr schema.GroupResource) string {
		if gr == eventsv1.Resource("events") {
			gr = corev1.Resource("events")
		}
		return "/" + gr.String()
	})
}

// guardParams keeps users from policies over parameters that they may not read.
func (s *Server) guardParams() error {
	policies := func(resource string, params func(runtime.Object) *admissionv1.ParamKind) func(context.Context, string) (*admissionv1.ParamKind, error) {
		gr := schema.GroupResource{Group: admissionv1.GroupName, Resource: resource}
		return func(ctx context.Context, name string) (*admissionv1.ParamKind, error) {
			policy, err := get[runtime.Object](ctx, s, gr, "", name)
			if err != nil {
				return nil, err
			}
			return params(policy), nil
		}
	}
	access := &admissionregistration.ParamAccess{
		Authorizer: s.authz, Resource: s.resourceOf,
		ValidatingParams: policies("validatingadmissionpolicies", func(o runtime.Object) *admissionv1.ParamKind {
			return o.(*admissionv1.ValidatingAdmissionPolicy).Spec.ParamKind
		}),
		MutatingParams: policies("mutatingadmissionpolicies", func(o runtime.Object) *admissionv1.ParamKind {
			return o.(*admissionv1.MutatingAdmissionPolicy).Spec.ParamKind
		}),
	}
	for _, resource := range []string{
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
	} {
		if err := access.Install(s.stores[schema.GroupResource{Group: admissionv1.GroupName, Resource: resource}]); err != nil {
			return err
		}
	}
	return nil
}

// resourceOf finds the resource of a kind, built-in or custom.
func (s *Server) resourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	gv := gvk.GroupVersion()
	list, err := s.client.Discovery().ServerResourcesForGroupVersion(gv.String())
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") && (r.Group == "" || r.Group == gv.Group) && (r.Version == "" || r.Version == gv.Version) {
			return gv.WithResource(r.Name), nil
		}
	}
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// Requests that have a way of their own, which is left where a webhook or a policy may
// be asked about them.
var (
	createsOfPods     = requestsOf(podResource, "", admission.Create)
	createsOfBindings = requestsOf(podResource, "binding", admission.Create)
	deletesOfPods     = requestsOf(podResource, "", admission.Delete)
	updatesOfStatus   = requestsOf(podResource, "status", admission.Update)
	createsOfEvents   = requestsOf(eventResource, "", admission.Create)
)

func requestsOf(resource schema.GroupVersionResource, subresource string, operation admission.Operation) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", resource, subresource, operation, nil, false, nil)
}

// asScheduler is who binds pods and sets their conditions without HTTP.
var asScheduler = authenticated(&user.DefaultInfo{Name: user.KubeScheduler})

func (s *Server) objectInterfaces() admission.ObjectInterfaces {
	return objectInterfaces{s.scheme, s.generic.EquivalentResourceRegistry}
}

// askedAbout does what may wait for webhooks, and gives the errors in the order.
func askedAbout(n int, do func(i int) error) []error {
	failures := make([]error, n)
	var group errgroup.Group
	group.SetLimit(maxAsking)
	for i := range failures {
		group.Go(func() error {
			failures[i] = do(i)
			return nil
		})
	}
	_ = group.Wait()
	return failures
}

// bindAsked is Bind past admission, as a POST of the scheduler passes it.
func (s *Server) bindAsked(ctx context.Context, b *corev1.Binding) error {
	b = b.DeepCopy()
	options := &metav1.CreateOptions{}
	ctx = asRequestOf(ctx, asScheduler, "create", podResource, b.Namespace, b.Name)
	a := admission.NewAttributesRecord(b, nil, corev1.SchemeGroupVersion.WithKind("Binding"), b.Namespace, b.Name, podResource, "binding", admission.Create, options, false, asScheduler)
	if err := s.admit.Admit(ctx, a, s.objectInterfaces()); err != nil {
		return err
	}
	_, err := s.binding.Create(request.WithNamespace(ctx, b.Namespace), b.Name, b, rest.AdmissionToValidateObjectFunc(s.admit, a, s.objectInterfaces()), options)
	return err
}

// setPodStatusAsked is an update of a pod's status past admission, as a PATCH of the
// scheduler passes it. The pod must have the UID.
func (s *Server) setPodStatusAsked(ctx context.Context, namespace, name string, uid types.UID, change func(runtime.Object) (runtime.Object, error)) error {
	ctx = asRequestOf(ctx, asScheduler, "update", podResource, namespace, name)
	options := &metav1.UpdateOptions{}
	attributes := func(now, old runtime.Object) admission.Attributes {
		return admission.NewAttributesRecord(now, old, podKind, namespace, name, podResource, "status", admission.Update, options, false, asScheduler)
	}
	info := rest.DefaultUpdatedObjectInfo(nil, func(ctx context.Context, _, old runtime.Object) (runtime.Object, error) {
		pod, ok := old.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected object: %#v", old)
		}
		if pod.UID != uid {
			return nil, apierrors.NewConflict(podResource.GroupResource(), name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, pod.UID))
		}
		now, err := change(pod.DeepCopy())
		if err != nil {
			return nil, err
		}
		return now, s.admit.Admit(ctx, attributes(now, old), s.objectInterfaces())
	})
	store := with(s.stores[podResource.GroupResource()], s.kinds[podResource.GroupResource()].Status)
	_, _, err := store.Update(ctx, name, info, rest.ValidateAllObjectFunc,
		rest.AdmissionToValidateObjectUpdateFunc(s.admit, attributes(nil, nil), s.objectInterfaces()), false, options)
	return err
}
