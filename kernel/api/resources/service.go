package resources

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
)

func serviceKind(alloc *ipalloc.Allocator) Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("Service")
	b := base{gvk: gvk, namespaced: true, createOnUpdate: true}
	return Kind{
		GVK: gvk, Resource: "services", Singular: "service",
		ShortNames: []string{"svc"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &corev1.Service{} },
		NewList: func() runtime.Object { return &corev1.ServiceList{} },
		Strategy: &rules[*corev1.Service]{
			base:          b.resetting([]any{"status"}),
			prepareCreate: func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} },
			prepareUpdate: func(s, old *corev1.Service) {
				s.Status = old.Status
				dropServiceTypeFields(s, old)
			},
			validate:       validateServiceCreate,
			validateUpdate: validateServiceUpdate,
			warnCreate:     serviceWarnings,
			warnUpdate:     func(s, _ *corev1.Service) []string { return serviceWarnings(s) },
		},
		Status: &rules[*corev1.Service]{
			base:           b.resetting([]any{"spec"}),
			prepareUpdate:  func(s, old *corev1.Service) { s.Spec = old.Spec },
			validateUpdate: validateServiceStatusUpdate,
		},
		Fields: func(obj runtime.Object) fields.Set {
			s := obj.(*corev1.Service)
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		},
		FieldNames: []string{"spec.clusterIP", "spec.type"},
		Columns:    serviceColumns(), Row: row(serviceCells),
		Decorate: (&serviceAllocation{alloc: alloc}).decorate,
	}
}

func setServiceDefaults(s *corev1.Service) {
	spec := &s.Spec
	switch {
	case spec.SessionAffinity == "":
		spec.SessionAffinity = corev1.ServiceAffinityNone
		fallthrough
	case spec.SessionAffinity == corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case spec.SessionAffinity == corev1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if externallyAccessible(s) && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.InternalTrafficPolicy == nil {
		switch spec.Type {
		case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
			spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
		}
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = ptr.To(true)
	}
	for i := range s.Status.LoadBalancer.Ingress {
		if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" && in.IPMode == nil {
			in.IPMode = ptr.To(corev1.LoadBalancerIPModeVIP)
		}
	}
}

func externallyAccessible(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.Spec.Type == corev1.ServiceTypeNodePort ||
		s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

func needsClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

func needsNodePort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func needsHealthCheck(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// isHeadless goes by what is asked for, before and after allocation.
func isHeadless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// serviceAllocation hooks the allocators into the store of services: values
// are taken before a write and kept or given back when its outcome is known.
type serviceAllocation struct {
	alloc *ipalloc.Allocator
	list  func(context.Context) ([]corev1.Service, error)
}

func (a *serviceAllocation) decorate(store *genericregistry.Store) error {
	a.list = func(ctx context.Context) ([]corev1.Service, error) {
		out := &corev1.ServiceList{}
		err := store.Storage.GetList(ctx, store.KeyRootFunc(ctx), storage.ListOptions{Predicate: storage.Everything, Recursive: true}, out)
		return out.Items, err
	}
	store.BeginCreate = a.beginCreate
	store.BeginUpdate = a.beginUpdate
	store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
		svc, ok := obj.(*corev1.Service)
		if ok && !(options != nil && dryrun.IsDryRun(options.DryRun)) {
			a.alloc.Release(svc)
		}
	}
	return nil
}

func (a *serviceAllocation) begin(ctx context.Context, svc *corev1.Service, dryRun []string) (*ipalloc.Txn, error) {
	// The list is of all namespaces, whatever the request's is.
	ctx = withoutNamespace(ctx)
	if err := a.alloc.Load(ctx, a.list); err != nil {
		return nil, err
	}
	return a.alloc.Begin(ctx, ipalloc.NameOf(svc), dryrun.IsDryRun(dryRun)), nil
}

func (a *serviceAllocation) beginCreate(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
	svc := obj.(*corev1.Service)
	txn, err := a.begin(ctx, svc, options.DryRun)
	if err != nil {
		return nil, err
	}
	normalizeClusterIPs(svc, nil)
	if err := a.allocate(txn, svc, nil); err != nil {
		txn.Revert()
		return nil, err
	}
	return finish(txn), nil
}

func (a *serviceAllocation) beginUpdate(ctx context.Context, obj, oldObj runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Subresource != "" {
		// A status update keeps the stored spec, whatever the request holds.
		return func(context.Context, bool) {}, nil
	}
	svc, old := obj.(*corev1.Service), oldObj.(*corev1.Service)
	txn, err := a.begin(ctx, svc, options.DryRun)
	if err != nil {
		return nil, err
	}
	keepAllocated(svc, old)
	normalizeClusterIPs(svc, old)
	if err := a.allocate(txn, svc, old); err != nil {
		txn.Revert()
		return nil, err
	}
	return finish(txn), nil
}

// finish ends a write. The store says that an update has succeeded before it is
// written, and may then try again: where somebody knows the outcome (WithOutcome),
// what a service gives up is kept until then.
func finish(txn *ipalloc.Txn) genericregistry.FinishFunc {
	return func(ctx context.Context, success bool) {
		pending, _ := ctx.Value(outcomeKey{}).(*[]*ipalloc.Txn)
		switch {
		case !success:
			txn.Revert()
		case pending != nil:
			*pending = append(*pending, txn)
		default:
			txn.Commit()
		}
	}
}

type outcomeKey struct{}

// WithOutcome is a context for an update of a service, and what to call with its
// outcome: of the tries only the last took or gave up anything, and only if it
// was written.
func WithOutcome(ctx context.Context) (context.Context, func(written bool)) {
	var tries []*ipalloc.Txn
	return context.WithValue(ctx, outcomeKey{}, &tries), func(written bool) {
		for i, txn := range tries {
			if written && i == len(tries)-1 {
				txn.Commit()
			} else {
				txn.Revert()
			}
		}
	}
}
