package devicetainteviction

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/metrics"
)

const (
	standardWorkers = 8
	source          = "device-taint-eviction-controller"
	eviction        = "DeviceTaintManagerEviction"
)

// kube-controller-manager's metrics of this controller, under its names.
var (
	deletions = prometheus.NewCounter(prometheus.CounterOpts{
		Subsystem: "device_taint_eviction_controller", Name: "pod_deletions_total", Help: "Pods deleted because of a taint of a device.",
	})
	deletionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "device_taint_eviction_controller", Name: "pod_deletion_duration_seconds",
		Help:    "Time between the effect of a device taint on a pod and the deletion of the pod.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
	})
	registerMetrics sync.Once
)

// pool is what a driver's devices are in.
type pool struct{ driver, name string }

// key is what is worked on: a pod, or a pool whose devices changed.
type key struct {
	pool pool
	pod  cache.ObjectName
}

// String is for the log.
func (k key) String() string {
	if k.pod.Name != "" {
		return "pod " + k.pod.String()
	}
	return "pool " + k.pool.driver + "/" + k.pool.name
}

// evictor is the controller.
type evictor struct {
	*queue.Frame[key]
	client   kubernetes.Interface
	now      func() time.Time
	pods     corelisters.PodLister
	claims   resourcelisters.ResourceClaimLister
	byDevice cache.Indexer // claims
	slices   cache.Indexer

	mu    sync.Mutex
	plans map[cache.ObjectName]plan
}

// plan is a deletion that is to come, or under way.
type plan struct {
	uid    types.UID
	due    time.Time
	pools  []pool // whose taints are the reason
	marked bool   // an event said that the deletion is under way
}

// New builds the controller. Its one key is concurrentSyncs.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentSyncs", standardWorkers)
	if err != nil {
		return nil, err
	}
	registerMetrics.Do(func() { metrics.Register(deletions, deletionSeconds) })
	return build(c.Client, c.Informers, workers, c.Logger)
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, workers int, log *slog.Logger) (*evictor, error) {
	pods, claims, sliced := shared.Core().V1().Pods(), shared.Resource().V1().ResourceClaims(), shared.Resource().V1().ResourceSlices().Informer()
	for _, i := range []struct {
		on   cache.SharedIndexInformer
		name string
		by   cache.IndexFunc
	}{
		{claims.Informer(), claimsByDevice, devicesOfClaim}, {sliced, slicesByPool, poolOfSlice}, {sliced, slicesByTainted, taintedOfSlice},
	} {
		err := i.on.AddIndexers(cache.Indexers{i.name: i.by})
		if _, there := i.on.GetIndexer().GetIndexers()[i.name]; !there {
			return nil, fmt.Errorf("devicetainteviction: index %s: %w", i.name, err)
		}
	}
	e := &evictor{
		client: client, now: time.Now, pods: pods.Lister(), claims: claims.Lister(), byDevice: claims.Informer().GetIndexer(), slices: sliced.GetIndexer(),
		plans: map[cache.ObjectName]plan{},
	}
	e.Frame = queue.NewFrame(client, log, source, e.sync, queue.Options[key]{Name: source, Workers: workers})
	e.Watch(pods.Informer(), queue.On(e.podChanged))
	e.Watch(claims.Informer(), queue.On(e.claimChanged))
	e.Watch(sliced, queue.On(e.sliceChanged))
	return e, nil
}

// podChanged looks at a pod that is new, gone, bound or has other claims.
func (e *evictor) podChanged(old, pod *corev1.Pod) {
	switch {
	case pod == nil:
		if e.planned(cache.MetaObjectToName(old)) {
			e.Add(key{pod: cache.MetaObjectToName(old)})
		}
	case len(pod.Spec.ResourceClaims) == 0 || pod.Spec.NodeName == "":
	case old == nil || old.UID != pod.UID || old.Spec.NodeName != pod.Spec.NodeName || !resourceclaim.PodStatusEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		e.Add(key{pod: cache.MetaObjectToName(pod)})
	}
}

// claimChanged looks at the users of a claim that is allocated or was, if they or the allocation are others.
func (e *evictor) claimChanged(old, claim *resourcev1.ResourceClaim) {
	if old != nil && claim != nil && old.UID == claim.UID && (old.Status.Allocation == nil) == (claim.Status.Allocation == nil) &&
		slices.Equal(old.Status.ReservedFor, claim.Status.ReservedFor) {
		return
	}
	for _, c := range []*resourcev1.ResourceClaim{old, claim} {
		if c != nil {
			e.addUsers(c)
		}
	}
}

func (e *evictor) addUsers(claim *resourcev1.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			e.Add(key{pod: cache.NewObjectName(claim.Namespace, user.Name)})
		}
	}
}

// sliceChanged looks at a pool: a slice without a taint may be of a generation that ends those of others.
func (e *evictor) sliceChanged(old, slice *resourcev1.ResourceSlice) {
	if old != nil && slice != nil && old.Spec.Pool.Generation == slice.Spec.Pool.Generation && !tainted(old) && !tainted(slice) {
		return
	}
	for _, s := range []*resourcev1.ResourceSlice{old, slice} {
		if s != nil {
			e.Add(key{pool: pool{s.Spec.Driver, s.Spec.Pool.Name}})
		}
	}
}

func (e *evictor) planned(pod cache.ObjectName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, there := e.plans[pod]
	return there
}

func (e *evictor) sync(ctx context.Context, key key) error {
	if key.pod.Name == "" {
		return e.syncPool(key.pool)
	}
	return e.syncPod(ctx, key.pod)
}

// syncPool enqueues the pods that the devices of a pool are reason for, or were.
func (e *evictor) syncPool(p pool) error {
	devices, err := e.taintedOf(p)
	if err != nil {
		return err
	}
	for device := range devices {
		claims, err := e.byDevice.ByIndex(claimsByDevice, p.device(device))
		if err != nil {
			return err
		}
		for _, obj := range claims {
			if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
				e.addUsers(claim)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, plan := range e.plans {
		if slices.Contains(plan.pools, p) {
			e.Add(key{pod: name})
		}
	}
	return nil
}

// syncPod deletes a pod that is due, or comes back then.
func (e *evictor) syncPod(ctx context.Context, name cache.ObjectName) error {
	pod, err := e.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil {
		e.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	before, has := e.plans[name]
	e.mu.Unlock()
	if has && before.uid != pod.UID {
		e.forget(name) // it was another pod's
		before, has = plan{}, false
	}
	next, due, err := e.judge(pod)
	if err != nil {
		return err
	}
	if !due {
		e.forget(name)
		if has && !before.marked {
			e.Recorder.Event(reference(pod), corev1.EventTypeNormal, eviction, "Cancelling deletion")
		}
		return nil
	}
	next.marked = before.marked
	e.remember(name, next)
	if left := next.due.Sub(e.now()); left > 0 {
		return &queue.After{Delay: left, Reason: "the pod's claims tolerate the taints of its devices until then"}
	}
	return e.carryOut(ctx, name, pod, next)
}

func (e *evictor) remember(name cache.ObjectName, p plan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plans[name] = p
}

func (e *evictor) forget(name cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.plans, name)
}
