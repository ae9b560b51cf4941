package nodelifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	taintPeriod    = 100 * time.Millisecond // between tries to taint
	workers        = 8
	eventSource    = "node-controller"
	evictionSource = "taint-eviction-controller"
)

// lifecycle is the controller.
type lifecycle struct {
	client    kubernetes.Interface
	log       *slog.Logger
	config    Config
	recorder  record.EventRecorder // of nodes
	evictor   record.EventRecorder // of evictions
	now       func() time.Time
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	leases    coordinationlisters.LeaseLister
	informers struct{ nodes, pods, leases cache.SharedIndexInformer }

	taints    *queue.Loop[string]           // of nodes: NoSchedule taints and labels
	evictions *queue.Loop[cache.ObjectName] // of pods: NoExecute taints

	mu     sync.Mutex
	health map[string]*health // by node
	zones  map[string]*zone   // by topology key
	down   bool               // no node was ready at the last look; of the monitor alone
	since  map[cache.ObjectName]time.Time
}

// New builds the controller from a Config in JSON.
func New(c *controller.Context) (controller.Runner, error) {
	config, err := readConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("nodelifecycle: %w", err)
	}
	core, leases := c.Informers.Core().V1(), c.Informers.Coordination().V1().Leases()
	l := &lifecycle{
		client: c.Client, log: c.Logger, config: config, now: time.Now,
		nodes: core.Nodes().Lister(), pods: core.Pods().Lister(), leases: leases.Lister(),
		health: map[string]*health{}, zones: map[string]*zone{}, since: map[cache.ObjectName]time.Time{},
	}
	l.informers.nodes, l.informers.pods, l.informers.leases = core.Nodes().Informer(), core.Pods().Informer(), leases.Informer()
	if err := indexPods(l.informers.pods); err != nil {
		return nil, fmt.Errorf("nodelifecycle: index pods: %w", err)
	}
	l.taints = queue.New(c.Logger, l.syncTaints, queue.Options[string]{Name: "node_lifecycle_controller", Workers: workers})
	l.evictions = queue.New(c.Logger, l.syncPod, queue.Options[cache.ObjectName]{Name: "noexec_taint_pod", Workers: workers})
	return l, nil
}

// Run works until ctx ends.
func (l *lifecycle) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, l.client, eventSource)
	defer stop()
	evictor, stop := controller.Recorder(ctx, l.client, evictionSource)
	defer stop()
	l.recorder, l.evictor = recorder, evictor
	return queue.Follow(ctx, []queue.Watch{
		{Informer: l.informers.nodes, Handler: queue.On(l.nodeChanged)},
		{Informer: l.informers.pods, Handler: queue.Every(func(p *corev1.Pod) {
			if p.Spec.NodeName != "" {
				l.evictions.Add(cache.MetaObjectToName(p))
			}
		})},
		{Informer: l.informers.leases},
	}, l.taints, l.evictions,
		queue.Func(func(ctx context.Context) { every(ctx, l.config.NodeMonitorPeriod.Duration, l.monitor) }),
		queue.Func(func(ctx context.Context) { every(ctx, taintPeriod, l.taintUnhealthy) }))
}

// nodeChanged queues a node and, if its NoExecute taints are others, its pods.
func (l *lifecycle) nodeChanged(old, current *corev1.Node) {
	if current == nil {
		return
	}
	l.taints.Add(current.Name)
	var before []corev1.Taint
	if old != nil {
		before = noExecute(old.Spec.Taints)
	}
	if !sameTaints(before, noExecute(current.Spec.Taints)) {
		for _, p := range l.podsOn(current.Name) {
			l.evictions.Add(cache.MetaObjectToName(p))
		}
	}
}

// every calls f at once and then each period, until ctx ends.
func every(ctx context.Context, period time.Duration, f func(context.Context)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
