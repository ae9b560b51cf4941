package endpoints

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	endpointsliceutil "k8s.io/endpointslice/util"

	"pintle.dev/pintle/plugins/controllers/podchange"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/plugins/controllers/subsets"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// LabelManagedBy marks the Endpoints of this controller.
	LabelManagedBy = "endpoints.kubernetes.io/managed-by"
	// Name is the value of LabelManagedBy and the source of its events.
	Name = "endpoint-controller"

	workers    = 5  // ConcurrentEndpointSyncs, EPC-7
	maxRetries = 15 // then a key waits for its next event

	// staleWait lets the cache of endpoints catch up.
	staleWait = 50 * time.Millisecond

	truncated = "truncated"
)

// errBehind is the outcome of a sync that met an old state.
var errBehind = &queue.After{Delay: staleWait, Reason: "the cache of endpoints is behind what was written"}

// endpoints is the controller.
type endpoints struct {
	client    kubernetes.Interface
	log       *slog.Logger
	recorder  record.EventRecorder
	services  corelisters.ServiceLister
	pods      corelisters.PodLister
	endpoints corelisters.EndpointsLister
	informers struct{ services, pods, endpoints cache.SharedIndexInformer }

	loop    *queue.Loop[string] // of services
	changes *podchange.Changes
	trigger *endpointsliceutil.TriggerTimeTracker

	mu sync.Mutex
	// replaced holds, for each object written, the resource version that the
	// write replaced: a cache that still shows it is behind.
	replaced map[string]string
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentEndpointSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("endpoints: %w", err)
	}
	core := c.Informers.Core().V1()
	e := &endpoints{
		client: c.Client, log: c.Logger,
		services: core.Services().Lister(), pods: core.Pods().Lister(), endpoints: core.Endpoints().Lister(),
		trigger: endpointsliceutil.NewTriggerTimeTracker(), replaced: map[string]string{},
	}
	e.informers.services, e.informers.pods, e.informers.endpoints = core.Services().Informer(), core.Pods().Informer(), core.Endpoints().Informer()
	e.loop = queue.New(c.Logger, e.sync, queue.Options[string]{Name: "endpoint", Workers: workers, Retries: maxRetries})
	e.changes = podchange.New(c.Logger, "endpoint_pod", workers, maxRetries, e.services, e.loop.Add)
	return e, nil
}

// Run works until ctx ends.
func (e *endpoints) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, e.client, Name)
	defer stop()
	e.recorder = recorder
	return queue.Follow(ctx, []queue.Watch{
		{Informer: e.informers.services, Handler: queue.Every(func(s *corev1.Service) { e.loop.Add(queue.Key(s)) })},
		{Informer: e.informers.pods, Handler: e.changes.Handler()},
		{Informer: e.informers.endpoints, Handler: queue.On(func(old, current *corev1.Endpoints) {
			if current == nil {
				e.loop.Add(queue.Key(old))
			}
		})},
	}, e.loop, e.changes, queue.Func(e.addLeftovers))
}

// addLeftovers queues all Endpoints once, so that those whose service went
// away while nobody looked are deleted.
func (e *endpoints) addLeftovers(ctx context.Context) {
	list, err := e.endpoints.List(labels.Everything())
	if err != nil {
		e.log.ErrorContext(ctx, "endpoints without a service are not looked for", "error", err)
	}
	for _, ep := range list {
		// Old leader elections used Endpoints that never had a service.
		if _, ok := ep.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; !ok {
			e.loop.Add(queue.Key(ep))
		}
	}
}

// sync makes the Endpoints of one service what they should be (EPC-8 to
// EPC-14).
func (e *endpoints) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	service, err := e.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		if err := e.client.CoreV1().Endpoints(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("endpoints %s: delete: %w", key, err)
		}
		e.trigger.DeleteService(namespace, name)
		e.mu.Lock()
		delete(e.replaced, key)
		e.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	// Without a selector, or with another name to point to, the endpoints are
	// somebody else's.
	if service.Spec.Type == corev1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return nil
	}
	pods, err := e.pods.Pods(namespace).List(labels.SelectorFromValidatedSet(service.Spec.Selector))
	if err != nil {
		return err
	}
	changedAt := e.trigger.ComputeEndpointLastChangeTriggerTime(namespace, service, pods)
	wanted := subsetsOf(service, pods)

	current, err := e.endpoints.Endpoints(namespace).Get(name)
	exists := err == nil
	switch {
	case apierrors.IsNotFound(err):
		current = &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	case err != nil:
		return err
	case e.behind(key, current):
		return errBehind
	}
	if exists && equalSubsets(current.Subsets, wanted) && labelsFit(current.Labels, service.Labels) && annotationFits(current) {
		return nil
	}
	want := current.DeepCopy()
	want.Subsets = wanted
	setMetadata(want, service, changedAt)
	if truncate(want) {
		want.Annotations[corev1.EndpointsOverCapacity] = truncated
	} else {
		delete(want.Annotations, corev1.EndpointsOverCapacity)
	}
	return e.write(ctx, key, service, current, want, exists)
}

func (e *endpoints) write(ctx context.Context, key string, service *corev1.Service, current, want *corev1.Endpoints, exists bool) error {
	client := e.client.CoreV1().Endpoints(want.Namespace)
	if !exists {
		_, err := client.Create(ctx, want, metav1.CreateOptions{})
		switch {
		case err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil
		case apierrors.IsAlreadyExists(err):
			return errBehind
		}
		e.recorder.Eventf(want, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %v/%v: %v", service.Namespace, service.Name, err)
		return fmt.Errorf("endpoints %s: create: %w", key, err)
	}
	written, err := client.Update(ctx, want, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return errBehind
	}
	if err != nil {
		e.recorder.Eventf(want, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %v/%v: %v", service.Namespace, service.Name, err)
		return fmt.Errorf("endpoints %s: update: %w", key, err)
	}
	if written.ResourceVersion != current.ResourceVersion {
		e.mu.Lock()
		e.replaced[key] = current.ResourceVersion
		e.mu.Unlock()
	}
	return nil
}

func (e *endpoints) behind(key string, cached *corev1.Endpoints) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	replaced, ok := e.replaced[key]
	return ok && replaced == cached.ResourceVersion
}

// setMetadata sets the labels and the trigger time (EPC-15).
func setMetadata(want *corev1.Endpoints, service *corev1.Service, changedAt time.Time) {
	if want.Labels = maps.Clone(service.Labels); want.Labels == nil {
		want.Labels = map[string]string{}
	}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		want.Labels[corev1.IsHeadlessService] = ""
	} else {
		delete(want.Labels, corev1.IsHeadlessService)
	}
	want.Labels[LabelManagedBy] = Name
	if changedAt.IsZero() {
		delete(want.Annotations, corev1.EndpointsLastChangeTriggerTime)
	} else {
		want.Annotations[corev1.EndpointsLastChangeTriggerTime] = changedAt.UTC().Format(time.RFC3339Nano)
	}
}

// labelsFit says whether the labels are the service's, but for the two that
// this controller adds.
func labelsFit(have, service map[string]string) bool {
	if have[LabelManagedBy] != Name {
		return false
	}
	own := func(key, _ string) bool { return key == corev1.IsHeadlessService || key == LabelManagedBy }
	have, service = maps.Clone(have), maps.Clone(service)
	maps.DeleteFunc(have, own)
	maps.DeleteFunc(service, own)
	return maps.Equal(have, service)
}

func equalSubsets(have, want []corev1.EndpointSubset) bool {
	return apiequality.Semantic.DeepEqual(have, want) || apiequality.Semantic.DeepEqual(subsets.Repack(have), want)
}
