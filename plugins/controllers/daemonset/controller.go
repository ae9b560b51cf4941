package daemonset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/revisions"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
)

const (
	workers = 2
	// A pod that failed is deleted after a second, then two, up to 15 minutes.
	firstBackoff, lastBackoff = time.Second, 15 * time.Minute
	// backoffPeriod is how often back-offs of long ago are forgotten.
	backoffPeriod = time.Minute
)

var gvk = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// New builds the controller of DaemonSets.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentDaemonSetSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("daemonset: %w", err)
	}
	k, err := build(c.Client, c.Informers, c.Logger)
	if err != nil {
		return nil, err
	}
	k.SetWorkers(workers)
	k.nodeLoop.SetWorkers(workers)
	return k, nil
}

type keeper struct {
	*queue.Frame[string]
	client    kubernetes.Interface
	nodeLoop  *queue.Loop[string]
	sets      cache.Indexer
	pods      cache.Indexer
	nodeCache cache.Indexer
	revisions cache.Indexer
	history   *revisions.History
	expect    *expectations
	written   *written
	backoff   *flowcontrol.Backoff
	clock     func() time.Time
	log       *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, log *slog.Logger) (*keeper, error) {
	sets, revs := shared.Apps().V1().DaemonSets().Informer(), shared.Apps().V1().ControllerRevisions().Informer()
	pods, nodes := shared.Core().V1().Pods().Informer(), shared.Core().V1().Nodes().Informer()
	history, err := revisions.NewHistory(client, revs, gvk)
	if err := errors.Join(err, ownership.Index(pods), indexPods(pods)); err != nil {
		return nil, err
	}
	k := &keeper{
		client: client, history: history, clock: time.Now, log: log, backoff: flowcontrol.NewBackOff(firstBackoff, lastBackoff),
		sets: sets.GetIndexer(), pods: pods.GetIndexer(), nodeCache: nodes.GetIndexer(), revisions: revs.GetIndexer(),
		written: newWritten(pods.GetStore(), sets.GetStore()),
	}
	k.expect = newExpectations(func() time.Time { return k.clock() })
	k.Frame = queue.NewFrame(client, log, "daemonset-controller", k.sync, queue.Options[string]{Name: "daemonset", Workers: workers})
	k.nodeLoop = queue.New(log, k.syncNode, queue.Options[string]{Name: "daemonset-node-updates", Workers: workers})
	k.Watch(sets, queue.On(k.setChanged))
	k.Watch(revs, queue.On(k.revisionChanged))
	k.Watch(pods, queue.On(k.podChanged))
	k.Watch(nodes, queue.On(k.nodeChanged))
	k.Beside(k.nodeLoop, queue.Func(k.collectBackoffs))
	return k, nil
}

func (k *keeper) collectBackoffs(ctx context.Context) {
	tick := time.NewTicker(backoffPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.backoff.GC()
		}
	}
}

func (k *keeper) lookup(key string) *appsv1.DaemonSet {
	return ownership.Cached[*appsv1.DaemonSet](k.sets, key)
}

// run is one sync of a set. What it has of the caches must not be changed.
type run struct {
	*keeper
	key       string
	ds        *appsv1.DaemonSet
	selector  labels.Selector
	placement *placement
	nodes     []*corev1.Node
	now       time.Time

	hash string // of the current revision
	old  []*appsv1.ControllerRevision
}

// sync works on one set.
func (k *keeper) sync(ctx context.Context, key string) error {
	if err := k.written.behind(key); err != nil {
		return err
	}
	ds := k.lookup(key)
	if ds == nil {
		k.expect.forget(key)
		k.written.forget(key)
		return nil
	}
	if s := ds.Spec.Selector; s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		k.Recorder.Event(ds, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return nil
	}
	if ds.DeletionTimestamp != nil {
		// Its revisions may be gone already, without which no status can be told.
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil {
		return fmt.Errorf("daemon set %s has an invalid selector: %w", key, err)
	}
	r := &run{keeper: k, key: key, ds: ds, selector: selector, placement: placementOf(ds), now: k.clock()}
	for _, obj := range k.nodeCache.List() {
		if node, ok := obj.(*corev1.Node); ok {
			r.nodes = append(r.nodes, node)
		}
	}
	if err := r.findRevisions(ctx); err != nil {
		return fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	if !k.expect.satisfied(key) {
		return r.writeStatus(ctx, false)
	}
	if err := r.update(ctx); err != nil {
		if fault := r.writeStatus(ctx, true); fault != nil {
			k.log.DebugContext(ctx, "the status could not be written", "daemonSet", key, "error", fault)
		}
		return err
	}
	return r.writeStatus(ctx, true)
}

// update makes and deletes pods and deletes old revisions.
func (r *run) update(ctx context.Context) error {
	if err := r.manage(ctx); err != nil {
		return err
	}
	if r.ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType && r.expect.satisfied(r.key) {
		if err := r.roll(ctx); err != nil {
			return err
		}
	}
	return r.prune(ctx)
}
