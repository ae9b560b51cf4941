package endpointslice

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	endpointslicelib "k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"pintle.dev/pintle/plugins/controllers/podchange"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// Name is what the slices of this controller are managed by.
	Name = "endpointslice-controller.k8s.io"

	eventSource = "endpoint-slice-controller"
	workers     = 5
	maxRetries  = 15
	// maxPerSlice is how many endpoints go into one slice by default.
	maxPerSlice = 100
	// sliceDelay gathers changes of slices before their service is looked at.
	sliceDelay = time.Second
	// staleWait lets the cache of slices catch up.
	staleWait = 50 * time.Millisecond
)

// endpointSlices is the controller.
type endpointSlices struct {
	perSlice  int32
	client    kubernetes.Interface
	services  corelisters.ServiceLister
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	slices    discoverylisters.EndpointSliceLister
	informers struct{ services, pods, nodes, slices cache.SharedIndexInformer }

	loop     *queue.Loop[string] // of services
	changes  *podchange.Changes
	topology *queue.Loop[struct{}] // of all nodes at once

	tracker    *endpointsliceutil.EndpointSliceTracker
	trigger    *endpointsliceutil.TriggerTimeTracker
	zones      *topologycache.TopologyCache
	recorder   record.EventRecorder
	reconciler *endpointslicelib.Reconciler
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("endpointslice: %w", err)
	}
	workers := config.ConcurrentServiceEndpointSyncs
	core, discovery := c.Informers.Core().V1(), c.Informers.Discovery().V1()
	e := &endpointSlices{
		client: c.Client, services: core.Services().Lister(), pods: core.Pods().Lister(),
		nodes: core.Nodes().Lister(), slices: discovery.EndpointSlices().Lister(),
		tracker: endpointsliceutil.NewEndpointSliceTracker(), trigger: endpointsliceutil.NewTriggerTimeTracker(),
		zones: topologycache.NewTopologyCache(), perSlice: int32(config.MaxEndpointsPerSlice),
	}
	e.informers.services, e.informers.pods = core.Services().Informer(), core.Pods().Informer()
	e.informers.nodes, e.informers.slices = core.Nodes().Informer(), discovery.EndpointSlices().Informer()
	// A service whose slices fail to be written may need many writes, so its
	// first retry comes after a second and not at once.
	slow := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 1000*time.Second),
		&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 100)},
	)
	e.loop = queue.New(c.Logger, e.sync, queue.Options[string]{Name: "endpoint_slice", Workers: workers, Retries: maxRetries, Limiter: slow})
	e.changes = podchange.New(c.Logger, "endpoint_slice_pod", workers, maxRetries, e.services, e.loop.Add)
	e.topology = queue.New(c.Logger, e.syncNodes, queue.Options[struct{}]{Name: "endpoint_slice_topology"})
	return e, nil
}

// Run works until ctx ends.
func (e *endpointSlices) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, e.client, eventSource)
	defer stop()
	e.record(recorder)
	return queue.Follow(ctx, []queue.Watch{
		{Informer: e.informers.services, Handler: queue.Every(func(s *corev1.Service) { e.loop.Add(queue.Key(s)) })},
		{Informer: e.informers.pods, Handler: e.changes.Handler()},
		{Informer: e.informers.nodes, Handler: queue.On(e.nodeChanged)},
		{Informer: e.informers.slices, Handler: queue.On(e.sliceChanged)},
	}, e.loop, e.changes, e.topology)
}

// record makes the reconciler, which needs to know where its events go.
func (e *endpointSlices) record(recorder record.EventRecorder) {
	e.recorder = recorder
	e.reconciler = endpointslicelib.NewReconciler(e.client, e.nodes, e.perSlice, e.tracker, e.zones, recorder, Name,
		endpointslicelib.WithPreferSameTrafficDistributionEnabled(true))
}

func (e *endpointSlices) nodeChanged(old, current *corev1.Node) {
	if old == nil || current == nil || nodeReady(old) != nodeReady(current) ||
		old.Labels[corev1.LabelTopologyZone] != current.Labels[corev1.LabelTopologyZone] {
		e.topology.Add(struct{}{})
	}
}

// sliceChanged queues the service of a slice that differs from what this
// controller wrote.
func (e *endpointSlices) sliceChanged(old, current *discoveryv1.EndpointSlice) {
	switch {
	case current == nil:
		if e.reconciler.ManagedByController(old) && e.tracker.Has(old) && !e.tracker.HandleDeletion(old) {
			e.addServiceOf(old)
		}
	case old != nil && old.Labels[discoveryv1.LabelServiceName] != current.Labels[discoveryv1.LabelServiceName]:
		e.addServiceOf(current)
		e.addServiceOf(old)
	case old != nil && e.reconciler.ManagedByChanged(old, current),
		e.reconciler.ManagedByController(current) && e.tracker.ShouldSync(current):
		e.addServiceOf(current)
	}
}

func (e *endpointSlices) addServiceOf(slice *discoveryv1.EndpointSlice) {
	// A slice without the label belongs to no service.
	if key, err := endpointslicelib.ServiceControllerKey(slice); err == nil {
		e.loop.AddAfter(key, sliceDelay)
	}
}

// syncNodes tells the zones to the hints, and queues the services whose hints
// no longer fit.
func (e *endpointSlices) syncNodes(ctx context.Context, _ struct{}) error {
	nodes, err := e.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	e.zones.SetNodes(klog.FromContext(ctx), nodes)
	for _, service := range e.zones.GetOverloadedServices() {
		e.loop.Add(service)
	}
	return nil
}

// sync makes the slices of one service what they should be.
func (e *endpointSlices) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	service, err := e.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		// The slices are owned by the service; the garbage collector has them.
		e.trigger.DeleteService(namespace, name)
		e.reconciler.DeleteService(namespace, name)
		e.tracker.DeleteService(namespace, name)
		return nil
	}
	if err != nil {
		return err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return nil
	}
	pods, err := e.pods.Pods(namespace).List(labels.SelectorFromValidatedSet(service.Spec.Selector))
	if err != nil {
		e.recorder.Eventf(service, corev1.EventTypeWarning, "FailedToListPods", "Error listing Pods for Service %s/%s: %v", namespace, name, err)
		return err
	}
	have, err := e.slices.EndpointSlices(namespace).List(labels.SelectorFromValidatedSet(labels.Set{
		discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: Name,
	}))
	if err != nil {
		e.recorder.Eventf(service, corev1.EventTypeWarning, "FailedToListEndpointSlices", "Error listing Endpoint Slices for Service %s/%s: %v", namespace, name, err)
		return err
	}
	// Those on their way out would keep the tracker waiting for ever.
	have = slices.DeleteFunc(have, func(s *discoveryv1.EndpointSlice) bool { return s.DeletionTimestamp != nil })
	if e.tracker.StaleSlices(service, have) {
		return &queue.After{Delay: staleWait, Reason: "the cache of slices is behind what was written"}
	}
	changedAt := e.trigger.ComputeEndpointLastChangeTriggerTime(namespace, service, pods)
	if err := e.reconciler.Reconcile(klog.FromContext(ctx), service, pods, have, changedAt); err != nil {
		e.recorder.Eventf(service, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices", "Error updating Endpoint Slices for Service %s/%s: %v", namespace, name, err)
		return fmt.Errorf("endpoint slices of service %s: %w", key, err)
	}
	return nil
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
