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

	"pintle.dev/pintle/plugins/controllers/nodepods"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	taintPeriod = 100 * time.Millisecond // between tries to taint
	workers     = 8
	eventSource = "node-controller"
)

// lifecycle is the controller.
type lifecycle struct {
	client    kubernetes.Interface
	log       *slog.Logger
	config    Config
	recorder  record.EventRecorder
	now       func() time.Time
	nodes     corelisters.NodeLister
	leases    coordinationlisters.LeaseLister
	informers struct{ nodes, pods, leases cache.SharedIndexInformer }

	taints *queue.Loop[string] // of nodes: NoSchedule taints and labels

	mu     sync.Mutex
	health map[string]*health // by node
	zones  map[string]*zone   // by topology key
	down   bool               // no node was ready at the last look; of the monitor alone
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
		nodes: core.Nodes().Lister(), leases: leases.Lister(),
		health: map[string]*health{}, zones: map[string]*zone{},
	}
	l.informers.nodes, l.informers.pods, l.informers.leases = core.Nodes().Informer(), core.Pods().Informer(), leases.Informer()
	if err := nodepods.Index(l.informers.pods); err != nil {
		return nil, fmt.Errorf("nodelifecycle: index pods: %w", err)
	}
	l.taints = queue.New(c.Logger, l.syncTaints, queue.Options[string]{Name: "node_lifecycle_controller", Workers: workers})
	return l, nil
}

// Run works until ctx ends.
func (l *lifecycle) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, l.client, eventSource)
	defer stop()
	l.recorder = recorder
	return queue.Follow(ctx, []queue.Watch{
		{Informer: l.informers.nodes, Handler: queue.On(func(_, n *corev1.Node) {
			if n != nil {
				l.taints.Add(n.Name)
			}
		})},
		{Informer: l.informers.pods},
		{Informer: l.informers.leases},
	}, l.taints,
		queue.Func(func(ctx context.Context) { every(ctx, l.config.NodeMonitorPeriod.Duration, l.monitor) }),
		queue.Func(func(ctx context.Context) { every(ctx, taintPeriod, l.taintUnhealthy) }))
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
