package tainteviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/nodepods"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/metrics"
)

const (
	workers = 8
	source  = "taint-eviction-controller"
)

// kube-controller-manager's metrics of this controller, under its names.
var (
	deletions = prometheus.NewCounter(prometheus.CounterOpts{
		Subsystem: "taint_eviction_controller", Name: "pod_deletions_total", Help: "Pods deleted because of a taint of their node.",
	})
	deletionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "taint_eviction_controller", Name: "pod_deletion_duration_seconds",
		Help:    "Time between the effect of a taint on a pod and the deletion of the pod.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
	})
	registerMetrics sync.Once
)

// evictor is the controller.
type evictor struct {
	*queue.Frame[cache.ObjectName]
	client kubernetes.Interface
	now    func() time.Time
	nodes  corelisters.NodeLister
	pods   cache.Indexer

	mu    sync.Mutex
	plans map[cache.ObjectName]plan
}

// plan is a deletion that is to come, or under way.
type plan struct {
	uid    types.UID
	due    time.Time
	marked bool // an event said that the deletion is under way
}

// New builds the controller. It has no configuration.
func New(c *controller.Context) (controller.Runner, error) {
	if len(c.Config) > 0 && strings.TrimSpace(string(c.Config)) != "{}" {
		return nil, errors.New("tainteviction has no configuration")
	}
	registerMetrics.Do(func() { metrics.Register(deletions, deletionSeconds) })
	pods, nodes := c.Informers.Core().V1().Pods().Informer(), c.Informers.Core().V1().Nodes()
	if err := nodepods.Index(pods); err != nil {
		return nil, fmt.Errorf("tainteviction: index pods: %w", err)
	}
	e := &evictor{client: c.Client, now: time.Now, nodes: nodes.Lister(), pods: pods.GetIndexer(), plans: map[cache.ObjectName]plan{}}
	e.Frame = queue.NewFrame(c.Client, c.Logger, source, e.sync, queue.Options[cache.ObjectName]{Name: "noexec_taint_pod", Workers: workers})
	e.Watch(nodes.Informer(), queue.On(e.nodeChanged))
	e.Watch(pods, queue.On(e.podChanged))
	return e, nil
}

// nodeChanged looks at the pods of a node whose NoExecute taints are others.
func (e *evictor) nodeChanged(old, node *corev1.Node) {
	if node == nil {
		return // what was planned goes on
	}
	var before []corev1.Taint
	if old != nil {
		before = noExecute(old.Spec.Taints)
	}
	if apiequality.Semantic.DeepEqual(before, noExecute(node.Spec.Taints)) {
		return
	}
	pods := nodepods.On(e.pods, node.Name)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range pods {
		e.Add(cache.MetaObjectToName(p))
	}
}

// podChanged looks at a pod that is new, gone, bound or tolerates something else.
// One whose node has no such taint is looked at when the node gets one.
func (e *evictor) podChanged(old, pod *corev1.Pod) {
	switch {
	case pod == nil:
		if e.planned(cache.MetaObjectToName(old)) {
			e.Add(cache.MetaObjectToName(old))
		}
		return
	case pod.Spec.NodeName == "":
		return
	case old != nil && old.UID == pod.UID && old.Spec.NodeName == pod.Spec.NodeName && apiequality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations):
		return
	}
	node, err := e.nodes.Get(pod.Spec.NodeName)
	if err == nil && len(noExecute(node.Spec.Taints)) > 0 || e.planned(cache.MetaObjectToName(pod)) {
		e.Add(cache.MetaObjectToName(pod))
	}
}

func (e *evictor) planned(key cache.ObjectName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, there := e.plans[key]
	return there
}

// sync deletes a pod whose time is over, or comes back then.
func (e *evictor) sync(ctx context.Context, key cache.ObjectName) error {
	obj, there, err := e.pods.GetByKey(key.String())
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !there || !ok {
		e.cancel(key)
		return nil
	}
	e.mu.Lock()
	p, has := e.plans[key]
	e.mu.Unlock()
	if has && p.uid != pod.UID {
		e.cancel(key) // it was another pod's
		p, has = plan{}, false
	}
	node, err := e.nodes.Get(pod.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		if !has {
			return nil // podgc has it
		}
	case err != nil:
		return err
	default:
		if p, has = e.judge(ctx, key, pod, noExecute(node.Spec.Taints), p, has); !has {
			return nil
		}
	}
	if left := p.due.Sub(e.now()); left > 0 {
		return &queue.After{Delay: left, Reason: "the pod tolerates the taints of its node until then"}
	}
	return e.carryOut(ctx, key, pod, p)
}

// judge returns the plan for a pod on a node with these taints, and whether it has one.
func (e *evictor) judge(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, taints []corev1.Taint, p plan, has bool) (plan, bool) {
	tolerates, lasts := tolerated(ctx, pod.Spec.Tolerations, taints)
	now := e.now()
	switch {
	case tolerates && lasts < 0:
		e.cancel(key)
		return plan{}, false
	case has && (tolerates || !p.due.After(now)):
		return p, true
	case has:
		e.cancel(key) // it goes at once instead
	}
	p = plan{uid: pod.UID, due: now.Add(lasts)}
	e.mu.Lock()
	e.plans[key] = p
	e.mu.Unlock()
	return p, true
}

// carryOut tells that a pod is marked, once, and deletes it.
func (e *evictor) carryOut(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, p plan) error {
	if !p.marked {
		e.Recorder.Eventf(reference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s", key)
		p.marked = true
		e.mu.Lock()
		e.plans[key] = p
		e.mu.Unlock()
	}
	if err := e.evict(ctx, pod); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.plans, key)
	e.mu.Unlock()
	deletions.Inc()
	deletionSeconds.Observe(e.now().Sub(p.due).Seconds())
	return nil
}

// cancel forgets a planned deletion. An event says so, unless the deletion is under way.
func (e *evictor) cancel(key cache.ObjectName) {
	e.mu.Lock()
	p, planned := e.plans[key]
	delete(e.plans, key)
	e.mu.Unlock()
	if planned && !p.marked {
		e.Recorder.Eventf(reference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
	}
}

func reference(key cache.ObjectName) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name}
}
