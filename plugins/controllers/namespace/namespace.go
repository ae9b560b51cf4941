package namespace

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
)

const (
	workers = 10
	// settle lets creations that were let in just before the deletion land.
	settle = 50 * time.Millisecond
	// longestWait bounds the time until what remains is looked at again.
	longestWait = 5 * time.Second
	maxBackoff  = time.Minute
)

// namespaces is the controller.
type namespaces struct {
	client    typedcorev1.NamespaceInterface
	objects   metadata.Interface
	discover  func() ([]*metav1.APIResourceList, error)
	lister    corelisters.NamespaceLister
	pods      corelisters.PodLister
	informers struct{ namespaces, pods cache.SharedIndexInformer }
	loop      *queue.Loop[string] // of names
	count     map[string]int      // of pods, by namespace; of the informer's goroutine alone
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentNamespaceSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	objects, err := metadata.NewForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("namespace: metadata client: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("namespace: discovery client: %w", err)
	}
	n := newController(c, objects, kinds.ServerPreferredNamespacedResources)
	n.loop.SetWorkers(workers)
	return n, nil
}

func newController(c *controller.Context, objects metadata.Interface, discover func() ([]*metav1.APIResourceList, error)) *namespaces {
	ns, pods := c.Informers.Core().V1().Namespaces(), c.Informers.Core().V1().Pods()
	n := &namespaces{
		client: c.Client.CoreV1().Namespaces(), objects: objects, discover: discover,
		lister: ns.Lister(), pods: pods.Lister(), count: map[string]int{},
	}
	n.informers.namespaces, n.informers.pods = ns.Informer(), pods.Informer()
	n.loop = queue.New(c.Logger, n.sync, queue.Options[string]{
		Name: "namespace", Workers: workers,
		Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, maxBackoff),
	})
	return n
}

// Run works until ctx ends.
func (n *namespaces) Run(ctx context.Context) error {
	return n.loop.Follow(ctx,
		queue.Watch{Informer: n.informers.namespaces, Handler: queue.On(n.namespaceChanged)},
		queue.Watch{Informer: n.informers.pods, Handler: queue.On(n.podChanged)},
	)
}

// namespaceChanged looks at a namespace when its deletion begins. Changes of its
// status are those of this controller.
func (n *namespaces) namespaceChanged(old, current *corev1.Namespace) {
	if current == nil || current.DeletionTimestamp == nil {
		return
	}
	if old == nil || old.DeletionTimestamp == nil || old.UID != current.UID || !slices.Equal(old.Spec.Finalizers, current.Spec.Finalizers) {
		n.loop.AddAfter(current.Name, settle)
	}
}

// podChanged looks at a namespace when its last pod is gone and the other kinds
// can go. To look at each pod that goes would ask for all others as often.
func (n *namespaces) podChanged(old, current *corev1.Pod) {
	if !n.lastGone(old, current) {
		return
	}
	if ns, err := n.lister.Get(old.Namespace); err == nil && ns.DeletionTimestamp != nil {
		n.loop.Add(old.Namespace)
	}
}

// lastGone counts the pods of each namespace.
func (n *namespaces) lastGone(old, current *corev1.Pod) bool {
	switch {
	case old == nil:
		n.count[current.Namespace]++
	case current == nil:
		n.count[old.Namespace]--
		if n.count[old.Namespace] == 0 {
			delete(n.count, old.Namespace)
			return true
		}
	}
	return false
}

// sync takes one namespace as far as it goes.
func (n *namespaces) sync(ctx context.Context, name string) error {
	if _, err := n.lister.Get(name); apierrors.IsNotFound(err) {
		return nil
	}
	// Others may finalize too, so the decision is made on what is stored.
	ns, err := n.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("namespace %s: get: %w", name, err)
	}
	if ns.DeletionTimestamp == nil {
		return nil
	}
	if ns.Status.Phase != corev1.NamespaceTerminating {
		ns.Status.Phase = corev1.NamespaceTerminating
		if ns, err = n.client.UpdateStatus(ctx, ns, metav1.UpdateOptions{}); err != nil {
			return ignoreGone(fmt.Errorf("namespace %s: update status: %w", name, err))
		}
	}
	if len(ns.Spec.Finalizers) == 0 {
		return nil
	}
	left, report := n.empty(ctx, ns)
	if report.apply(&ns.Status, metav1.Now()) {
		updated, err := n.client.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
		if err != nil {
			return ignoreGone(fmt.Errorf("namespace %s: update status: %w", name, err))
		}
		ns = updated
	}
	if err := report.err(); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	if left > 0 {
		wait := min(left/2+time.Second, longestWait)
		return &queue.After{Delay: wait, Reason: fmt.Sprintf("some content remains in the namespace, estimate %d seconds before it is removed", int(left.Seconds()))}
	}
	return n.finalize(ctx, ns)
}

// finalize takes this controller's finalizer off.
func (n *namespaces) finalize(ctx context.Context, ns *corev1.Namespace) error {
	kept := []corev1.FinalizerName{}
	for _, f := range ns.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			kept = append(kept, f)
		}
	}
	if len(kept) == len(ns.Spec.Finalizers) {
		return nil // only others are waited for
	}
	ns.Spec.Finalizers = kept
	if _, err := n.client.Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		return ignoreGone(fmt.Errorf("namespace %s: finalize: %w", ns.Name, err))
	}
	return nil
}

// ignoreGone is nil for a namespace that is not there any more.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
