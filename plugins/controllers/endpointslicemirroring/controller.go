package endpointslicemirroring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	endpointslicelib "k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// Name is what the slices of this controller are managed by.
	Name = "endpointslicemirroring-controller.k8s.io"

	eventSource = "endpoint-slice-mirroring-controller"
	workers     = 5
	maxRetries  = 15
	// maxPerSubset is how many addresses of one subset are mirrored.
	maxPerSubset = 1000
	// staleWait lets the cache of slices catch up.
	staleWait = 50 * time.Millisecond
)

// mirroring is the controller.
type mirroring struct {
	client    kubernetes.Interface
	services  corelisters.ServiceLister
	endpoints corelisters.EndpointsLister
	slices    discoverylisters.EndpointSliceLister
	informers struct{ services, endpoints, slices cache.SharedIndexInformer }

	loop     *queue.Loop[string] // of Endpoints
	tracker  *endpointsliceutil.EndpointSliceTracker
	recorder record.EventRecorder
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "mirroringConcurrentServiceEndpointSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("endpointslicemirroring: %w", err)
	}
	core, discovery := c.Informers.Core().V1(), c.Informers.Discovery().V1()
	m := &mirroring{
		client: c.Client, services: core.Services().Lister(), endpoints: core.Endpoints().Lister(),
		slices: discovery.EndpointSlices().Lister(), tracker: endpointsliceutil.NewEndpointSliceTracker(),
	}
	m.informers.services, m.informers.endpoints = core.Services().Informer(), core.Endpoints().Informer()
	m.informers.slices = discovery.EndpointSlices().Informer()
	// One object may need many writes, so its first retry comes after a second
	// and not at once.
	slow := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 100*time.Second),
		&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 100)},
	)
	m.loop = queue.New(c.Logger, m.sync, queue.Options[string]{Name: "endpoint_slice_mirroring", Workers: workers, Retries: maxRetries, Limiter: slow})
	return m, nil
}

// Run works until ctx ends.
func (m *mirroring) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, m.client, eventSource)
	defer stop()
	m.recorder = recorder
	return m.loop.Follow(ctx,
		queue.Watch{Informer: m.informers.services, Handler: queue.On(m.serviceChanged)},
		queue.Watch{Informer: m.informers.endpoints, Handler: queue.On(m.endpointsChanged)},
		queue.Watch{Informer: m.informers.slices, Handler: queue.On(m.sliceChanged)},
	)
}

// serviceChanged queues the Endpoints of a service without a selector, and of
// one that has just been given one.
func (m *mirroring) serviceChanged(old, current *corev1.Service) {
	switch {
	case current == nil && old.Spec.Selector == nil:
		m.loop.Add(queue.Key(old))
	case current != nil && (old == nil && current.Spec.Selector == nil ||
		old != nil && (old.Spec.Selector == nil) != (current.Spec.Selector == nil)):
		m.loop.Add(queue.Key(current))
	}
}

func (m *mirroring) endpointsChanged(old, current *corev1.Endpoints) {
	switch {
	case current != nil && (mirrored(current) || old != nil && mirrored(old)):
		m.loop.Add(queue.Key(current))
	case current == nil && mirrored(old):
		m.loop.Add(queue.Key(old))
	}
}

// mirrored says whether Endpoints ask for slices, as far as they can tell.
func mirrored(endpoints *corev1.Endpoints) bool {
	_, election := endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return endpoints.Labels[discoveryv1.LabelSkipMirror] != "true" && !election
}

// sliceChanged queues the Endpoints of a slice that differs from what this
// controller wrote.
func (m *mirroring) sliceChanged(old, current *discoveryv1.EndpointSlice) {
	switch {
	case current == nil:
		if managed(old) && m.tracker.Has(old) && !m.tracker.HandleDeletion(old) {
			m.addEndpointsOf(old)
		}
	case old != nil && old.Labels[discoveryv1.LabelServiceName] != current.Labels[discoveryv1.LabelServiceName]:
		m.addEndpointsOf(current)
		m.addEndpointsOf(old)
	case old != nil && managed(old) != managed(current), managed(current) && m.tracker.ShouldSync(current):
		m.addEndpointsOf(current)
	}
}

func managed(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == Name
}

// addEndpointsOf: Endpoints, their service and its slices share the name.
func (m *mirroring) addEndpointsOf(slice *discoveryv1.EndpointSlice) {
	if key, err := endpointslicelib.ServiceControllerKey(slice); err == nil {
		m.loop.Add(key)
	}
}

// sync makes the slices of one Endpoints object what they should be.
func (m *mirroring) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	have, err := m.slices.EndpointSlices(namespace).List(labels.SelectorFromValidatedSet(labels.Set{
		discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: Name,
	}))
	if err != nil {
		return err
	}
	endpoints, err := m.endpoints.Endpoints(namespace).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	service, serviceErr := m.services.Services(namespace).Get(name)
	if serviceErr != nil && !apierrors.IsNotFound(serviceErr) {
		return serviceErr
	}
	if err != nil || serviceErr != nil || service.Spec.Selector != nil || !mirrored(endpoints) {
		m.tracker.DeleteService(namespace, name)
		return m.remove(ctx, key, have)
	}
	// Those on their way out would keep the tracker waiting for ever.
	have = slices.DeleteFunc(have, func(s *discoveryv1.EndpointSlice) bool { return s.DeletionTimestamp != nil })
	if m.tracker.StaleSlices(service, have) {
		return &queue.After{Delay: staleWait, Reason: "the cache of slices is behind what was written"}
	}
	want, lost := wanted(endpoints)
	m.tell(endpoints, lost)
	return m.write(ctx, key, endpoints, planFor(endpoints, want, have))
}

// tell says on the Endpoints what their slices lack.
func (m *mirroring) tell(endpoints *corev1.Endpoints, lost loss) {
	if lost.invalid > 0 {
		m.recorder.Eventf(endpoints, corev1.EventTypeWarning, "InvalidIPAddress",
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", lost.invalid)
	}
	if lost.overflow > 0 {
		m.recorder.Eventf(endpoints, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", maxPerSubset, lost.invalid+lost.overflow)
	}
}

func (m *mirroring) write(ctx context.Context, key string, endpoints *corev1.Endpoints, p plan) error {
	client := m.client.DiscoveryV1().EndpointSlices(endpoints.Namespace)
	for _, s := range p.right {
		if !m.tracker.Has(s) {
			m.tracker.Update(s)
		}
	}
	if endpoints.DeletionTimestamp == nil {
		for _, s := range p.create {
			created, err := client.Create(ctx, s, metav1.CreateOptions{})
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			if err != nil {
				return m.failed(endpoints, fmt.Errorf("create a slice for endpoints %s: %w", key, err))
			}
			m.tracker.Update(created)
		}
	}
	for _, s := range p.update {
		updated, err := client.Update(ctx, s, metav1.UpdateOptions{})
		if err != nil {
			return m.failed(endpoints, fmt.Errorf("update slice %s of endpoints %s: %w", s.Name, key, err))
		}
		m.tracker.Update(updated)
	}
	for _, s := range p.remove {
		err := client.Delete(ctx, s.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return m.failed(endpoints, fmt.Errorf("delete slice %s of endpoints %s: %w", s.Name, key, err))
		}
		m.tracker.ExpectDeletion(s)
	}
	return nil
}

// failed tells of a write that did not succeed, unless somebody else was
// faster, which happens.
func (m *mirroring) failed(endpoints *corev1.Endpoints, err error) error {
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		m.recorder.Eventf(endpoints, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Endpoints %s/%s: %v", endpoints.Namespace, endpoints.Name, err)
	}
	return err
}

// remove deletes all slices of Endpoints that are gone or no longer mirrored.
func (m *mirroring) remove(ctx context.Context, key string, have []*discoveryv1.EndpointSlice) error {
	var errs []error
	for _, s := range have {
		err := m.client.DiscoveryV1().EndpointSlices(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete slice %s of endpoints %s: %w", s.Name, key, err))
		}
	}
	return errors.Join(errs...)
}
