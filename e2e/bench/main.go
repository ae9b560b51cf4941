package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/bench/rig"
	"pintle.dev/pintle/sdk/schedpolicy"
)

// benchmark is one row group of the table.
type benchmark struct {
	name string
	what string
	run  func(ctx context.Context, o options) ([]figure, error)
	// limit replaces that of the command line. One with a limit of its own runs
	// only when it is named.
	limit time.Duration
}

var all = []benchmark{
	{name: "start", what: "serve to /readyz ok", run: start},
	{name: "memory", what: "resident memory of an idle standalone cluster, without containerd", run: memory},
	{name: "create", what: "durable pod creates, 32 client-go workers", run: create},
	{name: "schedule", what: "create to all bound, hollow nodes", run: schedule},
	{name: "pod", what: "pod create to Running against the three CRI calls by hand", run: pod},
	{name: "deployment", what: "one large Deployment on hollow nodes: made, ready, weighed, deleted", run: measureDeployment, limit: 15 * time.Minute},
	{name: "plugin", what: "what plugins cost, as module and as process, medians", run: measurePlugins, limit: 15 * time.Minute},
	{name: "store", what: "side by side with etcd and kube-apiserver, in turns, medians", run: measureStore, limit: 12 * time.Minute},
	{name: "peer", what: "side by side with etcd, kube-apiserver and kube-scheduler", run: measurePeer, limit: 90 * time.Minute},
	{name: "hollow", what: "simulated nodes with real agents, idle and with pods", run: measureHollow, limit: 90 * time.Minute},
	{name: "scale", what: "growth of the time a pod, 50,000 nodes and 100,000 pods", run: measureScale, limit: 30 * time.Minute},
}

// options are the command line's.
type options struct {
	rounds, nodes, pods, creates, workers int
	transport                             string
	profile                               string
	profileSeconds                        int

	// Of store alone.
	out, storeDir, storePhases string
	soak, settle               time.Duration
	etcdConnections            int

	// Of plugin alone.
	pluginPhases string

	// Of deployment alone.
	deploymentNodes int

	// Of peer alone.
	peerNodes, peerPods, peerFull, peerStuck, peerRounds, peerWorkers int
	peerRows, peerPolicy                                              string
	peerAlone                                                         bool

	// Of scale alone.
	scaleNodes, scalePods, scaleStep int

	// Of hollow alone.
	hollowNodes, hollowPods int
	hollowOnly              bool
}

func main() {
	// The load comes from this process: its collector should not take the
	// processors from what is measured, and its threads should not preempt it.
	debug.SetGCPercent(400)
	if err := schedpolicy.Batch(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	var o options
	out := flag.String("out", "build/bench", "folder of the JSON files")
	limit := flag.Duration("limit", 5*time.Minute, "longest that one benchmark may take")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is repeated; the best round counts, all are in the JSON")
	flag.IntVar(&o.nodes, "nodes", 1000, "hollow nodes of schedule")
	flag.IntVar(&o.pods, "pods", 5000, "pods of schedule, replicas of deployment")
	flag.IntVar(&o.creates, "creates", 15000, "pods of create")
	flag.IntVar(&o.workers, "workers", 32, "workers that create pods")
	flag.StringVar(&o.transport, "transport", "wasm", "transport of the classic set in schedule: wasm or process")
	flag.StringVar(&o.profile, "profile", "", "folder for processor and heap profiles of the kernel under load")
	flag.IntVar(&o.profileSeconds, "profile-seconds", 3, "how long the processor profile lasts")
	flag.StringVar(&o.storeDir, "store-dir", "", "folder on the disk that store uses; empty: the system's for temporary files")
	flag.StringVar(&o.storePhases, "store-phases", "", "parts of store: "+strings.Join(storePhases, ",")+"; empty: all")
	flag.DurationVar(&o.soak, "soak", time.Minute, "how long store rewrites; from 8 minutes on with the retention of the defaults")
	flag.DurationVar(&o.settle, "settle", 130*time.Second, "how long store leaves servers alone before it weighs them with all pods; within two minutes their collectors run by themselves")
	flag.IntVar(&o.etcdConnections, "etcd-connections", 1, "connections to etcd of store's writers and watchers")
	flag.StringVar(&o.pluginPhases, "plugin-phases", "", "parts of plugin: "+strings.Join(pluginPhases, ",")+"; empty: all")
	flag.IntVar(&o.deploymentNodes, "deployment-nodes", 100, "hollow nodes of deployment")
	flag.IntVar(&o.peerNodes, "peer-nodes", 5000, "nodes of peer; 500 with 1,000 pods take a minute or two")
	flag.IntVar(&o.peerPods, "peer-pods", 10000, "pods of peer")
	flag.IntVar(&o.peerFull, "peer-full", 500, "full nodes of peer's preemption, and pods that preempt")
	flag.IntVar(&o.peerStuck, "peer-stuck", 3000, "pods of peer that fit nowhere")
	flag.IntVar(&o.peerWorkers, "peer-workers", 128, "clients that create the pods of peer, of either side")
	flag.IntVar(&o.peerRounds, "peer-rounds", 1, "how often peer repeats each row; medians")
	flag.StringVar(&o.peerRows, "peer-rows", "", "rows of peer: "+strings.Join(rowNames(), ",")+"; empty: all")
	flag.StringVar(&o.peerPolicy, "peer-policy", "modern", "what Pintle decides by in peer and scale: modern or classic")
	flag.BoolVar(&o.peerAlone, "peer-alone", false, "leave kube-scheduler out of peer")
	flag.IntVar(&o.scaleNodes, "scale-nodes", 50_000, "nodes of scale at last")
	flag.IntVar(&o.scalePods, "scale-pods", 100_000, "pods of scale at last")
	flag.IntVar(&o.scaleStep, "scale-step", 5000, "pods of scale at each size of the cluster")
	flag.IntVar(&o.hollowNodes, "hollow-nodes", 50_000, "nodes of hollow at last")
	flag.IntVar(&o.hollowPods, "hollow-pods", 100_000, "pods of hollow at last, fewer on fewer nodes; 0: idle nodes alone")
	flag.BoolVar(&o.hollowOnly, "hollow-only", false, "measure hollow at its last size alone")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: bench [flags] [start|memory|create|schedule|pod|deployment|plugin|store|peer|hollow|scale]…   (none: all but the last six)")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.out = *out
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *out, *limit, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out string, limit time.Duration, names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(all, func(b benchmark) bool { return b.name == n }) {
			return fmt.Errorf("no benchmark %q; there are: %s", n, strings.Join(benchmarkNames(), ", "))
		}
	}
	if min(o.rounds, o.nodes, o.pods, o.creates, o.workers, o.peerNodes, o.peerPods, o.peerFull, o.peerStuck, o.peerRounds, o.peerWorkers, o.scaleNodes, o.scalePods, o.scaleStep, o.hollowNodes) < 1 || o.hollowPods < 0 {
		return errors.New("rounds, nodes, pods, creates, workers and sizes of peer, scale and hollow must be at least 1")
	}
	var errs []error
	for _, b := range all {
		named := slices.Contains(names, b.name)
		if !named && (len(names) > 0 || b.limit > 0) || ctx.Err() != nil {
			continue
		}
		fmt.Printf("%s: %s\n", b.name, b.what)
		before := loadAverage()
		longest := limit
		if b.limit > 0 {
			longest = b.limit + max(0, o.soak-time.Minute)
		}
		bctx, cancel := context.WithTimeout(ctx, longest)
		figures, err := b.run(bctx, o)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
			fmt.Printf("  failed: %v\n", err)
		}
		if len(figures) == 0 {
			continue
		}
		r := rig.NewReport(b.name, b.what, figures, before)
		r.Print(os.Stdout)
		if err != nil {
			r.Failed = err.Error()
		}
		if err := r.Write(out); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func benchmarkNames() []string {
	var names []string
	for _, b := range all {
		names = append(names, b.name)
	}
	return names
}
