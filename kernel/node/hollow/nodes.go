package hollow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/pleg"
	"pintle.dev/pintle/kernel/node/timetable"
)

// Label marks a simulated node: it serves no logs and no exec.
const Label = "kernel.pintle.dev/hollow"

// Most is how many nodes there may be: each has a range of pod IPs.
const Most = hollowRanges

// period is how often a simulated node looks after what it hears of at once: the runtime's
// events are lost only with the runtime's process.
const period = 5 * time.Minute

// Config says what the nodes are. Zero fields have the defaults named beside them.
type Config struct {
	// The nodes are named Prefix0 to Prefix(Nodes-1).
	Prefix string
	Nodes  int
	// Labels are set beside Label; Taints as the nodes register.
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity replaces or adds to DefaultCapacity, by resource.
	Capacity       corev1.ResourceList
	RuntimeName    string
	KubeletVersion string
	// RootDir is absolute. Nothing is written there.
	RootDir string
	// LeaseDuration is how long a node's Lease is valid. It is renewed each quarter of that.
	LeaseDuration time.Duration
	// StatusReport is how often a node's status is computed and written.
	StatusReport time.Duration
	// StartRate is how many nodes per second begin; 0: as many as can.
	StartRate float64
	Limits    Limits
}

// Limits bound the work of all nodes together.
type Limits struct {
	// Starting is how many nodes begin at once, and how many requests to the API are in
	// flight until all have begun. Requests holds from then on.
	Starting, Requests int
	// RuntimeRequests are in flight to the runtime.
	RuntimeRequests int
	// Tasks is how much of the regular work is under way at once.
	Tasks int
}

// Beside are the limits of nodes in the process of their API server: they leave the
// processors, and the API's places for writes, to others.
var Beside = Limits{Starting: 8, Requests: hollowShare, RuntimeRequests: hollowShare, Tasks: 16}

// Apart are the limits of nodes in a process of their own.
var Apart = Limits{Starting: 32, Requests: 32, RuntimeRequests: 16, Tasks: 64}

// DefaultCapacity is what a simulated node has.
func DefaultCapacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
	}
}

// Deps are what the nodes work with; all but InFlight are required.
type Deps struct {
	// Socket is the runtime's CRI endpoint, a path.
	Socket string
	// Admin lists nodes, watches services and keeps the ranges' ConfigMap.
	Admin kubernetes.Interface
	// Identity is the configuration of a client that is the named node. It is the caller's
	// own afterwards, to be changed.
	Identity func(node string) *rest.Config
	// Pods are the bound pods, Nodes the Node objects of at least these nodes.
	Pods  *node.SharedPodSource
	Nodes *nodestatus.Source
	// InFlight is how many requests an API of this process serves, to which the nodes give
	// way. Nil: there is none, and they do not wait.
	InFlight func() int
	Logger   *slog.Logger
}

// Nodes are simulated nodes and what all of them share. A node at rest has nothing that
// runs.
type Nodes struct {
	cfg      Config
	deps     Deps
	conn     *grpc.ClientConn
	factory  informers.SharedInformerFactory
	events   record.EventBroadcaster
	runtime  *pleg.Events
	table    *timetable.Table
	rounds   *turns
	requests *share
	agents   []*node.Agent
}

// New claims the nodes' ranges of pod IPs and makes their agents. Nothing runs before Run,
// which must be called if there is no error.
func New(ctx context.Context, cfg Config, deps Deps) (*Nodes, error) {
	capacity := DefaultCapacity()
	maps.Copy(capacity, cfg.Capacity)
	cfg.Capacity = capacity
	labels := map[string]string{}
	maps.Copy(labels, cfg.Labels)
	labels[Label] = "true"
	cfg.Labels = labels

	rounds := newTurns(deps.InFlight)
	calls := newShare(cfg.Limits.RuntimeRequests, rounds.of)
	conn, err := grpc.NewClient("unix://"+deps.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(calls.intercept))
	if err != nil {
		return nil, fmt.Errorf("hollow nodes: %w", err)
	}
	n := &Nodes{
		cfg: cfg, deps: deps, conn: conn, factory: informers.NewSharedInformerFactory(deps.Admin, 0),
		events: record.NewBroadcaster(), runtime: pleg.NewEvents(cri.New(conn, cri.AllNodes), deps.Logger),
		table: timetable.New(cfg.Limits.Tasks), rounds: rounds, requests: newShare(cfg.Limits.Starting, rounds.of),
	}
	n.factory.Core().V1().Services().Informer() // the factory starts what was asked for
	ranges, err := claimHollowRanges(ctx, deps.Admin, cfg.Prefix, cfg.Nodes)
	if err == nil {
		err = n.makeAgents(ranges)
	}
	if err != nil {
		n.events.Shutdown()
		return nil, errors.Join(err, conn.Close())
	}
	return n, nil
}

func (n *Nodes) name(i int) string { return fmt.Sprintf("%s%d", n.cfg.Prefix, i) }

func (n *Nodes) makeAgents(ranges []hollowRange) (err error) {
	n.agents = make([]*node.Agent, len(ranges))
	for i, own := range ranges {
		if n.agents[i], err = n.agent(n.name(i), own); err != nil {
			return fmt.Errorf("hollow node %s: %w", n.name(i), err)
		}
	}
	return nil
}

// agent makes the agent of one node, with the node's own identity.
func (n *Nodes) agent(name string, own hollowRange) (*node.Agent, error) {
	rc := n.deps.Identity(name)
	rc.Wrap(n.requests.wrap)
	lean, err := client.NewLean(rc)
	if err != nil {
		return nil, err
	}
	return node.New(node.Config{
		NodeName: name, PodCIDR: own.podCIDR, Labels: n.cfg.Labels, Taints: n.cfg.Taints, RuntimeName: n.cfg.RuntimeName,
		RootDir: filepath.Join(n.cfg.RootDir, name), Port: -1, NodeIPs: []string{hollowIP(own.number).String()},
		KubeletVersion: n.cfg.KubeletVersion, Capacity: n.cfg.Capacity, ImageGCHigh: 100,
		LeaseDuration: n.cfg.LeaseDuration, LeaseRenew: n.cfg.LeaseDuration / 4, // a quarter, as the kubelet
		StatusUpdate: n.cfg.StatusReport, StatusReport: n.cfg.StatusReport,
		EventedRelistPeriod: period, RelistPeriod: period, OrphanPeriod: period, ContainerGCPeriod: period,
		ResyncPeriod: 2 * period,
		SkipVolumes:  true, // nothing reads them
	}, node.Deps{
		Client: lean, Pods: n.deps.Pods, Nodes: n.deps.Nodes, Services: n.factory.Core().V1().Services().Lister(),
		CRI: ranged{n.conn, own.podCIDR}, Events: n.events, RuntimeEvents: n.runtime, Table: n.table, Turn: n.rounds.wait, Logger: n.deps.Logger,
	})
}

// Run brings all nodes to work, closes started, and stops them when ctx ends.
func (n *Nodes) Run(ctx context.Context, started chan<- struct{}) error {
	defer n.conn.Close()
	defer n.events.Shutdown()
	n.factory.StartWithContext(ctx)
	defer n.factory.Shutdown()
	cache.WaitForCacheSync(ctx.Done(), n.factory.Core().V1().Services().Informer().HasSynced)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = n.deps.Pods.Run(ctx) })
	wg.Go(func() { n.deps.Nodes.Run(ctx) })
	wg.Go(func() { n.rounds.run(ctx) })
	wg.Go(func() { n.runtime.Run(ctx) })
	wg.Go(func() { n.table.Run(ctx) })
	running := n.start(ctx)
	if ctx.Err() == nil {
		close(started)
	}
	for range n.cfg.Limits.Starting - n.cfg.Limits.Requests { // the places beyond their share are taken for good
		if n.requests.enter(ctx) != nil {
			break
		}
	}
	<-ctx.Done()
	several(len(running), n.cfg.Limits.Starting, func(i int) {
		if running[i] == nil {
			return
		}
		if err := running[i].Stop(); err != nil {
			n.deps.Logger.Error("hollow node did not stop as it should", "node", n.name(i), "error", err)
		}
	})
	return nil
}

// start begins the nodes, a few at once and as many per second as may. Those that ctx kept
// from it are nil.
func (n *Nodes) start(ctx context.Context) []*node.Running {
	pace := rate.NewLimiter(rate.Inf, 1)
	if n.cfg.StartRate > 0 {
		pace.SetLimit(rate.Limit(n.cfg.StartRate))
	}
	running := make([]*node.Running, len(n.agents))
	several(len(n.agents), n.cfg.Limits.Starting, func(i int) {
		err := pace.Wait(ctx)
		if err == nil {
			running[i], err = n.agents[i].Start(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.deps.Logger.Error("hollow node did not start", "node", n.name(i), "error", err)
		}
	})
	return running
}

// several calls do with each number below n, a few at once.
func several(n, atOnce int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// ranged names in each call to the runtime the range of pod IPs that the node has. CRI says
// it once (UpdateRuntimeConfig), which a runtime that keeps nothing has forgotten when its
// process was started again.
type ranged struct {
	grpc.ClientConnInterface
	podCIDR string
}

func (r ranged) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "pintle-pod-cidr", r.podCIDR)
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}
