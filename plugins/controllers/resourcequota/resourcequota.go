package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/quota"
)

const (
	workers    = 5
	fullResync = 5 * time.Minute
	syncLimit  = time.Minute // of one quota's lists
)

// quotas is the controller.
type quotas struct {
	period   time.Duration // between two looks at all quotas
	client   kubernetes.Interface
	quotas   corelisters.ResourceQuotaLister
	informer cache.SharedIndexInformer
	watched  map[string]cache.SharedIndexInformer // by resource, of the core group
	registry quotav1.Registry
	objects  metadata.Interface
	mapper   apimeta.ResettableRESTMapper
	loop     *queue.Loop[cache.ObjectName]
	poke     chan struct{} // what the quotas limit has changed
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("resourcequota: %w", err)
	}
	objects, err := metadata.NewForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("resourcequota: metadata client: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("resourcequota: discovery client: %w", err)
	}
	q := newController(c, objects, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)))
	q.period = config.ResourceQuotaSyncPeriod.Duration
	q.loop.SetWorkers(config.ConcurrentResourceQuotaSyncs)
	return q, nil
}

func newController(c *controller.Context, objects metadata.Interface, mapper apimeta.ResettableRESTMapper) *quotas {
	core := c.Informers.Core().V1()
	q := &quotas{
		objects: objects, mapper: mapper, poke: make(chan struct{}, 1), period: fullResync,
		client: c.Client, quotas: core.ResourceQuotas().Lister(), informer: core.ResourceQuotas().Informer(),
		watched: map[string]cache.SharedIndexInformer{
			"pods": core.Pods().Informer(), "services": core.Services().Informer(),
			"configmaps": core.ConfigMaps().Informer(), "replicationcontrollers": core.ReplicationControllers().Informer(),
			"resourcequotas": core.ResourceQuotas().Informer(),
		},
	}
	q.registry = generic.NewRegistry(quota.Evaluators(q.lister, nil))
	q.loop = queue.New(c.Logger, q.sync, queue.Options[cache.ObjectName]{Name: "resourcequota_primary", Workers: workers})
	return q
}

// lister finds the objects of a kind: in the shared informers, or else from
// the API.
func (q *quotas) lister(resource schema.GroupVersionResource) (cache.GenericLister, error) {
	if informer := q.watched[resource.Resource]; informer != nil && resource.Group == "" {
		return cache.NewGenericLister(informer.GetIndexer(), resource.GroupResource()), nil
	}
	return &apiLister{client: q.client, objects: q.objects, resource: resource.GroupResource()}, nil
}

// Run works until ctx ends.
func (q *quotas) Run(ctx context.Context) error {
	watches := []queue.Watch{{Informer: q.informer, Handler: queue.On(q.quotaChanged)}}
	for resource, informer := range q.watched {
		watches = append(watches, queue.Watch{Informer: informer, Handler: cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, current any) { q.replenish(resource, old, current) },
			DeleteFunc: func(old any) { q.replenish(resource, old, nil) },
		}})
	}
	return queue.Follow(ctx, watches, q.loop, queue.Func(q.replenishments), queue.Func(q.resync))
}

func (q *quotas) quotaChanged(old, current *corev1.ResourceQuota) {
	if old != nil && current != nil && quotav1.Equals(old.Spec.Hard, current.Spec.Hard) {
		return // RQC-6
	}
	if current != nil {
		q.loop.Add(cache.MetaObjectToName(current))
	}
	select {
	case q.poke <- struct{}{}:
	default:
	}
}

// resync queues all quotas every now and then, until ctx ends (RQC-7).
func (q *quotas) resync(ctx context.Context) {
	tick := time.NewTicker(q.period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, err := q.quotas.List(labels.Everything())
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "List quotas")
		}
		for _, quota := range all {
			q.loop.Add(cache.MetaObjectToName(quota))
		}
	}
}

// replenish queues the quotas that a change of an object may free something
// of (RQC-8). An update counts only when the usage differs.
func (q *quotas) replenish(resource string, old, current any) {
	if gone, ok := old.(cache.DeletedFinalStateUnknown); ok {
		old = gone.Obj
	}
	o, ok := old.(metav1.Object)
	kind := schema.GroupResource{Resource: resource}
	evaluator := q.registry.Get(kind)
	if !ok || evaluator == nil || len(q.constraining(kind, o.GetNamespace())) == 0 {
		return
	}
	if current != nil {
		was, err := evaluator.Usage(old.(runtime.Object))
		is, err2 := evaluator.Usage(current.(runtime.Object))
		if err == nil && err2 == nil && quotav1.Equals(was, is) {
			return
		}
	}
	q.enqueue(kind, o.GetNamespace())
}

// sync makes the status of one quota match its spec and reality (RQC-11).
func (q *quotas) sync(ctx context.Context, key cache.ObjectName) error {
	have, err := q.quotas.ResourceQuotas(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	hard := quotav1.Add(corev1.ResourceList{}, have.Spec.Hard)
	used := quotav1.Add(corev1.ResourceList{}, have.Status.Used)
	// What could be counted is written even if something could not.
	observed, failed := quotav1.CalculateUsage(key.Namespace, have.Spec.Scopes, hard, q.registry, have.Spec.ScopeSelector)
	for name, quantity := range observed {
		used[name] = quantity
	}
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	for name := range hard {
		n, counted, err := q.countOther(ctx, key.Namespace, name)
		if err != nil {
			failed = errors.Join(failed, err)
		} else if counted {
			used[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	used = quotav1.Mask(used, quotav1.ResourceNames(hard))
	if have.Status.Hard != nil && have.Status.Used != nil &&
		apiequality.Semantic.DeepEqual(have.Spec.Hard, have.Status.Hard) && quotav1.Equals(used, have.Status.Used) {
		return failed
	}
	want := have.DeepCopy()
	want.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	if _, err := q.client.CoreV1().ResourceQuotas(key.Namespace).UpdateStatus(ctx, want, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return errors.Join(failed, fmt.Errorf("resourcequota %s: update status: %w", key, err))
	}
	return failed
}

// countOther counts the objects of a kind that only its count/ name is charged
// for; counted is false for any other name.
func (q *quotas) countOther(ctx context.Context, namespace string, name corev1.ResourceName) (n int, counted bool, err error) {
	kind, ok := strings.CutPrefix(string(name), "count/")
	if !ok {
		return 0, false, nil
	}
	group := schema.ParseGroupResource(kind)
	if q.registry.Get(group) != nil {
		return 0, false, nil
	}
	found, served, err := q.resourceOf(group)
	if err == nil && !served {
		q.mapper.Reset() // a custom resource may have come meanwhile
		found, served, err = q.resourceOf(group)
	}
	if err != nil {
		return 0, false, fmt.Errorf("count %s: %w", group, err)
	}
	if !served {
		return 0, false, nil
	}
	list, err := q.objects.Resource(found).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, false, fmt.Errorf("count %s in %s: %w", group, namespace, err)
	}
	return len(list.Items), true, nil
}

// apiLister lists a kind of the core group that no informer holds. Claims are
// listed whole, for their storage; secrets as metadata.
type apiLister struct {
	client   kubernetes.Interface
	objects  metadata.Interface
	resource schema.GroupResource
}

var _ cache.GenericLister = (*apiLister)(nil)

func (l *apiLister) List(labels.Selector) ([]runtime.Object, error) {
	return nil, fmt.Errorf("%s: only listed by namespace", l.resource)
}

func (l *apiLister) Get(string) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(l.resource, "")
}

func (l *apiLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return &namespaceLister{apiLister: l, namespace: namespace}
}

type namespaceLister struct {
	*apiLister
	namespace string
}

func (l *namespaceLister) Get(name string) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(l.resource, name)
}

func (l *namespaceLister) List(selector labels.Selector) ([]runtime.Object, error) {
	ctx, cancel := context.WithTimeout(context.Background(), syncLimit)
	defer cancel()
	opts := metav1.ListOptions{LabelSelector: selector.String()}
	var out []runtime.Object
	switch l.resource.String() {
	case "secrets": // only counted, so what they hold stays where it is
		list, err := l.objects.Resource(l.resource.WithVersion("v1")).Namespace(l.namespace).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case "persistentvolumeclaims":
		list, err := l.client.CoreV1().PersistentVolumeClaims(l.namespace).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case "resourceclaims.resource.k8s.io":
		list, err := l.client.ResourceV1().ResourceClaims(l.namespace).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	default:
		return nil, fmt.Errorf("%s: no quota evaluator lists it", l.resource)
	}
	return out, nil
}
