package replicaset

import (
	"context"
	"log/slog"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/loop"
	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// burst is the most pods one sync makes or deletes (RCC-19).
	burst = 500
	// workers of the queue (FIL-10).
	workers = 5
)

// New builds the controller of ReplicaSets.
func New(c *controller.Context) (controller.Runner, error) {
	return build(c.Client, c.Informers, replicaSets(c.Client, c.Informers), c.Logger)
}

// NewReplication builds the controller of ReplicationControllers.
func NewReplication(c *controller.Context) (controller.Runner, error) {
	return build(c.Client, c.Informers, replicationControllers(c.Client, c.Informers), c.Logger)
}

type replicator struct {
	kind
	client   kubernetes.Interface
	loop     *loop.Loop
	expect   *expectations
	pods     cache.Indexer
	recorder record.EventRecorder
	clock    clock.PassiveClock
	log      *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, k kind, log *slog.Logger) (*replicator, error) {
	pods := shared.Core().V1().Pods().Informer()
	for _, informer := range []cache.SharedIndexInformer{pods, k.informer} {
		if err := ownership.Index(informer); err != nil {
			return nil, err
		}
	}
	r := &replicator{
		kind: k, client: client, loop: loop.New(k.component, log), pods: pods.GetIndexer(),
		clock: clock.RealClock{}, expect: newExpectations(clock.RealClock{}), log: log,
	}
	r.loop.Watch(k.informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    r.loop.Add,
		UpdateFunc: r.ownerUpdated,
		DeleteFunc: r.ownerDeleted,
	})
	r.loop.Watch(pods, cache.ResourceEventHandlerFuncs{
		AddFunc:    r.podAdded,
		UpdateFunc: r.podUpdated,
		DeleteFunc: r.podDeleted,
	})
	return r, nil
}

// Run works until ctx ends.
func (r *replicator) Run(ctx context.Context) error {
	recorder, stop := loop.Recorder(ctx, r.client, r.component)
	defer stop()
	r.recorder = recorder
	return r.loop.Run(ctx, workers, r.sync)
}

func (r *replicator) ownerUpdated(old, cur any) {
	// Deleted and made again between two looks: the old one's expectations
	// say nothing of the new one.
	if o, c := old.(metav1.Object), cur.(metav1.Object); o.GetUID() != c.GetUID() {
		r.ownerDeleted(old)
	}
	r.loop.Add(cur)
}

func (r *replicator) ownerDeleted(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		r.expect.forget(key)
		r.loop.Queue.Add(key)
	}
}

// owner returns the cached replica set that the reference names.
func (r *replicator) owner(namespace string, ref *metav1.OwnerReference) (*appsv1.ReplicaSet, string) {
	if ref == nil || ref.Kind != r.gvk.Kind {
		return nil, ""
	}
	key := namespace + "/" + ref.Name
	rs, err := r.lookup(key)
	if err != nil || rs == nil || rs.UID != ref.UID {
		return nil, ""
	}
	return rs, key
}

// matching enqueues all that might adopt an orphan.
func (r *replicator) matching(pod *corev1.Pod) {
	for _, rs := range r.inNamespace(pod.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			r.loop.Add(rs)
		}
	}
}

func (r *replicator) podAdded(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.DeletionTimestamp != nil { // RCC-4
		r.podDeleted(pod)
		return
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if rs, key := r.owner(pod.Namespace, ref); rs != nil {
			r.expect.created(key) // RCC-5
			r.loop.Queue.Add(key) // RCC-6
		}
		return
	}
	r.matching(pod)
}

func (r *replicator) podUpdated(oldObj, curObj any) {
	old, _ := oldObj.(*corev1.Pod)
	pod, _ := curObj.(*corev1.Pod)
	if old == nil || pod == nil || old.ResourceVersion == pod.ResourceVersion {
		return
	}
	relabelled := !maps.Equal(old.Labels, pod.Labels)
	if pod.DeletionTimestamp != nil {
		// The mark counts as the deletion, otherwise a replacement would wait
		// for the whole grace period (RCC-4).
		r.podDeleted(pod)
		if relabelled {
			r.podDeleted(old)
		}
		return
	}
	oldRef, ref := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(pod)
	moved := (oldRef == nil) != (ref == nil) || oldRef != nil && oldRef.UID != ref.UID
	if moved {
		if rs, key := r.owner(old.Namespace, oldRef); rs != nil {
			r.loop.Queue.Add(key)
		}
	}
	if ref != nil {
		rs, key := r.owner(pod.Namespace, ref)
		if rs == nil {
			return
		}
		r.loop.Queue.Add(key)
		if rs.Spec.MinReadySeconds > 0 && readyCondition(old) == nil && readyCondition(pod) != nil {
			// Nothing else tells when it has been ready for long enough; the
			// second lets the informer's clock be a little behind.
			r.loop.Queue.AddAfter(key, time.Duration(rs.Spec.MinReadySeconds)*time.Second+time.Second)
		}
		return
	}
	if relabelled || moved {
		r.matching(pod)
	}
}

func (r *replicator) podDeleted(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	if rs, key := r.owner(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); rs != nil {
		r.expect.deleted(key, podKey(pod))
		r.loop.Queue.Add(key)
	}
}

func podKey(p *corev1.Pod) string { return p.Namespace + "/" + p.Name + "/" + string(p.UID) }
