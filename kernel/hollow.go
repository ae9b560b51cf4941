package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/pleg"
	"pintle.dev/pintle/kernel/node/timetable"
)

// hollowPeriod is how often a hollow node looks after what it is told of at
// once: the runtime's events are lost only with the runtime's process.
const hollowPeriod = 5 * time.Minute

// hollowCIDRBits is the size of a hollow node's range of pod IPs: with 126
// addresses it holds the 110 pods that such a node takes.
const hollowCIDRBits = 25

// Numbers of the work of all hollow nodes together.
const (
	// hollowStarts is how many of them are brought to work, or stopped, at once,
	// and how many requests they have in flight until all are at work.
	hollowStarts = 8
	// hollowTasks is how much of their regular work is under way at once. Most of it waits for one of hollowShare
	// requests.
	hollowTasks = 16
)

// hollowNodes are what all hollow nodes share: one pod source, one watch of
// the nodes, one service cache, one connection to the runtime with one stream
// of its events, one event broadcaster and one timetable. A node at rest has
// nothing that runs.
type hollowNodes struct {
	cfg       config.Hollow
	conn      *grpc.ClientConn
	source    *node.SharedPodSource
	nodes     *nodestatus.Source
	factory   informers.SharedInformerFactory
	events    record.EventBroadcaster
	runtime   *pleg.Events
	table     *timetable.Table
	rounds    *turns
	requests  *share
	resources corev1.ResourceList
	labels    map[string]string
}

// startHollow runs simulated nodes: real agents over a runtime that runs nothing.
func (k *Kernel) startHollow(ctx context.Context, cfg *config.Config) error {
	endpoint, err := k.startRuntime(ctx, cfg, cfg.Hollow.Runtime, "", config.HollowPodRange)
	if err != nil {
		return err
	}
	rounds := newTurns(k.api.InFlight)
	calls := newShare(hollowShare, rounds.of)
	conn, err := grpc.NewClient("unix://"+endpoint.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(calls.intercept))
	if err != nil {
		return fmt.Errorf("hollow nodes: %w", err)
	}
	admin, _, err := k.client(hostIdentity)
	if err != nil {
		return err
	}
	pods, err := k.api.Source(corev1.SchemeGroupVersion.WithResource("pods"), node.BoundPods())
	if err != nil {
		return err
	}
	nodes, err := k.api.Source(corev1.SchemeGroupVersion.WithResource("nodes"), nil)
	if err != nil {
		return err
	}
	logger := k.log.With("part", "node")
	h := &hollowNodes{
		cfg: cfg.Hollow, conn: conn, source: node.NewPodSourceFrom(pods), nodes: nodestatus.NewSourceFrom(nodes), factory: informers.NewSharedInformerFactory(admin, 0),
		events: record.NewBroadcaster(), runtime: pleg.NewEvents(cri.New(conn, cri.AllNodes), logger), table: timetable.New(hollowTasks),
		rounds: rounds, requests: newShare(hollowStarts, rounds.of),
		labels: map[string]string{api.HollowLabel: "true"},
		resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
		},
	}
	h.factory.Core().V1().Services().Informer() // the factory starts what was asked for
	ranges, err := claimHollowRanges(ctx, admin, cfg.Hollow.Prefix, cfg.Hollow.Nodes)
	if err != nil {
		return err
	}
	agents := make([]*node.Agent, len(ranges))
	for i, own := range ranges {
		if agents[i], err = k.hollowAgent(h, fmt.Sprintf("%s%d", cfg.Hollow.Prefix, i), own, logger); err != nil {
			return err
		}
	}
	started := make(chan struct{})
	k.parts.start("hollow nodes", func(ctx context.Context) error { return h.run(ctx, agents, started, logger) }, nil)
	if err := k.await(ctx, started); err != nil {
		return err
	}
	k.step("hollow", "%d simulated nodes: no container runs on them", len(agents))
	return nil
}

// hollowAgent makes the agent of one node, with the node's own identity.
func (k *Kernel) hollowAgent(h *hollowNodes, name string, own hollowRange, logger *slog.Logger) (*node.Agent, error) {
	rc := k.api.ClientConfig(nodeIdentity(name))
	rc.Wrap(h.requests.wrap)
	lean, err := client.NewLean(rc)
	if err != nil {
		return nil, fmt.Errorf("hollow node %s: %w", name, err)
	}
	agent, err := node.New(node.Config{
		NodeName: name, PodCIDR: own.podCIDR, Labels: h.labels, RuntimeName: h.cfg.Runtime,
		RootDir: filepath.Join(k.dirs.data, "hollow", name), Port: -1, NodeIP: hollowIP(own.number).String(),
		KubeletVersion: api.GitVersion, Capacity: h.resources, ImageGCHigh: 100,
		LeaseDuration: h.cfg.LeaseDuration, LeaseRenew: h.cfg.LeaseDuration / 4, // a quarter, as the kubelet
		StatusUpdate: h.cfg.StatusReportFrequency, StatusReport: h.cfg.StatusReportFrequency,
		EventedRelistPeriod: hollowPeriod, RelistPeriod: hollowPeriod, OrphanPeriod: hollowPeriod, ContainerGCPeriod: hollowPeriod,
		ResyncPeriod: 2 * hollowPeriod,
		SkipVolumes:  true, // nothing reads them
	}, node.Deps{
		Client: lean, Pods: h.source, Nodes: h.nodes, Services: h.factory.Core().V1().Services().Lister(), CRI: ranged{h.conn, own.podCIDR},
		Events: h.events, RuntimeEvents: h.runtime, Table: h.table, Turn: h.rounds.wait, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("hollow node %s: %w", name, err)
	}
	return agent, nil
}

// run brings all agents to work, closes started, and stops them when ctx ends.
func (h *hollowNodes) run(ctx context.Context, agents []*node.Agent, started chan<- struct{}, logger *slog.Logger) error {
	defer h.conn.Close()
	defer h.events.Shutdown()
	h.factory.StartWithContext(ctx)
	defer h.factory.Shutdown()
	cache.WaitForCacheSync(ctx.Done(), h.factory.Core().V1().Services().Informer().HasSynced)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = h.source.Run(ctx) })
	wg.Go(func() { h.nodes.Run(ctx) })
	wg.Go(func() { h.rounds.run(ctx) })
	wg.Go(func() { h.runtime.Run(ctx) })
	wg.Go(func() { h.table.Run(ctx) })
	running := make([]*node.Running, len(agents))
	several(len(agents), func(i int) {
		var err error
		if running[i], err = agents[i].Start(ctx); err != nil && ctx.Err() == nil {
			logger.Error("hollow node did not start", "node", fmt.Sprintf("%s%d", h.cfg.Prefix, i), "error", err)
		}
	})
	if ctx.Err() == nil {
		close(started)
	}
	for range hollowStarts - hollowShare { // the places beyond their share are taken for good
		if h.requests.enter(ctx) != nil {
			break
		}
	}
	<-ctx.Done()
	several(len(running), func(i int) {
		if running[i] == nil {
			return
		}
		if err := running[i].Stop(); err != nil {
			logger.Error("hollow node did not stop as it should", "node", fmt.Sprintf("%s%d", h.cfg.Prefix, i), "error", err)
		}
	})
	return nil
}

// several calls do with each number below n, a few at once.
func several(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range hollowStarts {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// ranged tells the runtime in each call which range of pod IPs the node has.
// CRI says it once (UpdateRuntimeConfig), which a runtime that keeps nothing
// has forgotten when its process was started again.
type ranged struct {
	grpc.ClientConnInterface
	podCIDR string
}

func (r ranged) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "pintle-pod-cidr", r.podCIDR)
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}
