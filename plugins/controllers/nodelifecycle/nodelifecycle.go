package nodelifecycle

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	monitorPeriod = 5 * time.Second        // NDC-3
	taintPeriod   = 100 * time.Millisecond // between tries to taint
	gracePeriod   = 50 * time.Second       // without a heartbeat
	startupGrace  = time.Minute            // of a node that never had one
	workers       = 8
	eventSource   = "node-controller"
)

// lifecycle is the controller.
type lifecycle struct {
	client    kubernetes.Interface
	recorder  record.EventRecorder
	now       func() time.Time
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	leases    coordinationlisters.LeaseLister
	informers struct{ nodes, pods, leases cache.SharedIndexInformer }

	taints    *queue.Loop[string]           // of nodes: NoSchedule taints, labels
	evictions *queue.Loop[cache.ObjectName] // of pods: NoExecute taints

	mu     sync.Mutex
	health map[string]*health // by node
	zones  map[string]*zone   // by topology key
	since  map[cache.ObjectName]time.Time
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	core, leases := c.Informers.Core().V1(), c.Informers.Coordination().V1().Leases()
	l := &lifecycle{
		client: c.Client, now: time.Now,
		nodes: core.Nodes().Lister(), pods: core.Pods().Lister(), leases: leases.Lister(),
		health: map[string]*health{}, zones: map[string]*zone{}, since: map[cache.ObjectName]time.Time{},
	}
	l.informers.nodes, l.informers.pods, l.informers.leases = core.Nodes().Informer(), core.Pods().Informer(), leases.Informer()
	l.taints = queue.New(c.Logger, l.syncTaints, queue.Options[string]{Workers: workers})
	l.evictions = queue.New(c.Logger, l.syncPod, queue.Options[cache.ObjectName]{Workers: workers})
	return l, nil
}

// Run works until ctx ends.
func (l *lifecycle) Run(ctx context.Context) (err error) {
	defer l.taints.Close()
	defer l.evictions.Close()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: l.client.CoreV1().Events("")})
	l.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource})

	var handlers queue.Handlers
	defer func() {
		if e := handlers.Remove(); err == nil {
			err = e
		}
	}()
	if err := handlers.Add(l.informers.nodes, queue.On(func(old, current *corev1.Node) {
		if current == nil {
			return
		}
		l.taints.Add(current.Name)
		if hasNoExecute(current) || old != nil && hasNoExecute(old) {
			for _, p := range l.podsOn(current.Name) {
				l.evictions.Add(cache.MetaObjectToName(p))
			}
		}
	})); err != nil {
		return err
	}
	if err := handlers.Add(l.informers.pods, queue.On(func(old, current *corev1.Pod) {
		if current == nil {
			current = old
		}
		if current.Spec.NodeName != "" {
			l.evictions.Add(cache.MetaObjectToName(current))
		}
	})); err != nil {
		return err
	}
	if !handlers.Wait(ctx, l.informers.leases.HasSynced) {
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.taints.Run(ctx) })
	wg.Go(func() { l.evictions.Run(ctx) })
	wg.Go(func() { every(ctx, monitorPeriod, l.monitor) })
	every(ctx, taintPeriod, l.taintUnhealthy)
	wg.Wait()
	return nil
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
