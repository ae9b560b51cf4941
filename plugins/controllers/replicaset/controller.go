package replicaset

import (
	"fmt"
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
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
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
	return configured(c, replicaSets(c.Client, c.Informers), "concurrentRSSyncs")
}

// NewReplication builds the controller of ReplicationControllers.
func NewReplication(c *controller.Context) (controller.Runner, error) {
	return configured(c, replicationControllers(c.Client, c.Informers), "concurrentRCSyncs")
}

// configured builds the controller of a kind; key is that of its workers.
func configured(c *controller.Context, k kind, key string) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, key, workers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.queue, err)
	}
	r, err := build(c.Client, c.Informers, k, c.Logger)
	if err != nil {
		return nil, err
	}
	r.SetWorkers(workers)
	return r, nil
}

type replicator struct {
	*queue.Frame[string]
	kind
	client kubernetes.Interface
	expect *expectations
	pace   *pace
	pods   cache.Indexer
	clock  clock.PassiveClock
	log    *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, k kind, log *slog.Logger) (*replicator, error) {
	pods := shared.Core().V1().Pods().Informer()
	for _, informer := range []cache.SharedIndexInformer{pods, k.informer} {
		if err := ownership.Index(informer); err != nil {
			return nil, err
		}
	}
	r := &replicator{
		kind: k, client: client, pods: pods.GetIndexer(),
		clock: clock.RealClock{}, expect: newExpectations(clock.RealClock{}), pace: newPace(), log: log,
	}
	r.Frame = queue.NewFrame(client, log, k.component, r.sync, queue.Options[string]{Name: k.queue, Workers: workers})
	r.Watch(k.informer, queue.On(r.ownerChanged))
	r.Watch(pods, queue.On(r.podChanged))
	return r, nil
}

func (r *replicator) ownerChanged(old, current metav1.Object) {
	// Deleted, or deleted and made again between two looks: the old one's
	// expectations say nothing of a new one.
	if old != nil && (current == nil || old.GetUID() != current.GetUID()) {
		r.expect.forget(queue.Key(old))
	}
	if current == nil {
		current = old
	}
	r.Add(queue.Key(current))
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
			r.Add(queue.Key(rs))
		}
	}
}

func (r *replicator) podChanged(old, pod *corev1.Pod) {
	switch {
	case pod == nil:
		r.podDeleted(old)
	case old == nil:
		r.podAdded(pod)
	case old.ResourceVersion != pod.ResourceVersion:
		r.podUpdated(old, pod)
	}
}

func (r *replicator) podAdded(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil { // RCC-4
		r.podDeleted(pod)
		return
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if rs, key := r.owner(pod.Namespace, ref); rs != nil {
			r.expect.created(key) // RCC-5
			r.Add(key)            // RCC-6
		}
		return
	}
	r.matching(pod)
}

func (r *replicator) podUpdated(old, pod *corev1.Pod) {
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
			r.Add(key)
		}
	}
	if ref != nil {
		rs, key := r.owner(pod.Namespace, ref)
		if rs == nil {
			return
		}
		if rest := r.pace.left(key, r.clock.Now()); rest > 0 && !moved && !relabelled && active(old) && active(pod) {
			// The set has the same pods. Its status follows when that has rested, with one look
			// at all pods for all that changed.
			r.AddAfter(key, rest)
		} else {
			r.Add(key)
		}
		if rs.Spec.MinReadySeconds > 0 && readyCondition(old) == nil && readyCondition(pod) != nil {
			// Nothing else tells when it has been ready for long enough; the
			// second lets the informer's clock be a little behind.
			r.AddAfter(key, time.Duration(rs.Spec.MinReadySeconds)*time.Second+time.Second)
		}
		return
	}
	if relabelled || moved {
		r.matching(pod)
	}
}

func (r *replicator) podDeleted(pod *corev1.Pod) {
	if rs, key := r.owner(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); rs != nil {
		r.expect.deleted(key, podKey(pod))
		r.Add(key)
	}
}

func podKey(p *corev1.Pod) string { return p.Namespace + "/" + p.Name + "/" + string(p.UID) }
