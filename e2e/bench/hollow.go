package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

// hollowSizes are the clusters that are measured, as far as -hollow-nodes lets
// them grow.
var hollowSizes = []int{1000, 5000, 20_000, 50_000}

const (
	// hollowBeats is how many Leases all hollow nodes renew a second at most: real
	// ones renew on machines of their own, these must not take this one's.
	hollowBeats = 100
	// hollowPatience is how long a cluster of the largest size may take until all nodes are ready.
	hollowPatience = 30 * time.Minute
)

// hollowScale is the kernel's configuration at one size: the nodes, how long
// their Leases are valid, how often their status is written, and for how long
// the node lifecycle controller lets them be silent.
func hollowScale(nodes int) string {
	renew := max(10*time.Second, time.Duration(nodes)*time.Second/hollowBeats)
	status := max(5*time.Minute, 2*renew)
	return fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: .data-bench
logging: {level: warn}
api: {bindAddress: 127.0.0.1}
plugins:
  memoryLimit: 1Gi
  callTimeout: 10s
  bundles:
  - {name: classic, transport: wasm}
  - name: controllers
    config:
      nodelifecycle: {nodeMonitorGracePeriod: %[2]s}
  - {name: hollow, privileged: true}
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [CheckNodeUnschedulable, HostName, PodToleratesNodeTaints, MatchNodeSelector, PodFitsHostPorts, PodFitsResources]
    priorities:
    - {name: LeastRequestedPriority, weight: 1}
    - {name: BalancedResourceAllocation, weight: 1}
controllers:
  enabled: [nodelifecycle, tainteviction, serviceaccount, namespace]
node: {enabled: false}
hollow: {nodes: %[1]d, runtime: hollow, leaseDuration: %[3]s, statusReportFrequency: %[4]s}
`, nodes, max(50*time.Second, 6*renew), 4*renew, status)
}

// crowd is what was measured at one size.
type crowd struct {
	nodes, pods    int
	start          time.Duration // to every agent ready
	startCost      time.Duration // processor time of the kernel for that
	idle, idleAll  float64       // MB: kernel, kernel and plugins
	goroutines     int           // of the kernel with idle nodes
	beat           float64       // processors in percent that idle nodes take
	bound, running float64       // pods a second, from the first create
	kernel         float64       // processor time of the kernel a pod, to Running, us
	busy, busyAll  float64       // MB with all pods Running
}

// measureHollow runs clusters of simulated nodes with real agents, idle and with
// pods that their agents run.
func measureHollow(ctx context.Context, o options) (figures []figure, err error) {
	for _, size := range hollowSizes {
		nodes := min(size, o.hollowNodes)
		if len(figures) > 0 && nodes < size && slices.Contains(hollowSizes, nodes) {
			break // it was measured
		}
		if o.hollowOnly && nodes < o.hollowNodes {
			continue
		}
		c, err := crowdOf(ctx, o, nodes)
		if c.idle > 0 {
			figures = append(figures, c.figures()...)
		}
		if err != nil {
			return figures, fmt.Errorf("%d hollow nodes: %w", nodes, err)
		}
		if nodes < size {
			break
		}
	}
	return figures, nil
}

func crowdOf(ctx context.Context, o options, nodes int) (c crowd, err error) {
	c.nodes, c.pods = nodes, int(int64(o.hollowPods)*int64(nodes)/int64(o.hollowNodes))
	step("%d hollow nodes", nodes)
	dir, config, err := writeConfig(hollowScale(nodes))
	defer os.RemoveAll(dir)
	if err != nil {
		return c, err
	}
	begin := time.Now()
	k, err := cluster.Start(ctx, cluster.Options{SuperAdmin: true, Name: "bench-hollow", Config: config})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, k.Stop(syscall.SIGTERM)) }()
	client, cfg, err := clientOf(k)
	if err != nil {
		return c, err
	}
	if err := awaitServiceAccount(ctx, client); err != nil {
		return c, err
	}
	names, err := awaitNodesFor(ctx, client, nodes, hollowPatience)
	if err != nil {
		return c, err
	}
	c.start, c.startCost = time.Since(begin), processorTime(k.Pid())
	step("waiting %s, then weighing", idleFor)
	used := processorTime(k.Pid())
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return c, ctx.Err()
	}
	c.beat = 100 * (processorTime(k.Pid()) - used).Seconds() / idleFor.Seconds()
	if c.idle, c.idleAll, err = residents(k.Pid()); err != nil {
		return c, err
	}
	if c.goroutines, err = goroutinesOf(ctx, cfg); err != nil {
		return c, err
	}
	done := o.startProfile(cfg, fmt.Sprintf("hollow-%d", nodes))
	done()
	if c.pods == 0 {
		return c, nil
	}
	if err := c.fill(ctx, o, k, client, names); err != nil {
		return c, err
	}
	return c, nobodyLost(ctx, client, nodes)
}

// fill creates the pods and waits until the agents have them Running.
func (c *crowd) fill(ctx context.Context, o options, k *cluster.Cluster, client kubernetes.Interface, nodes map[string]bool) error {
	step("%d hollow nodes: %d pods", c.nodes, c.pods)
	w, err := watchPods(ctx, client)
	if err != nil {
		return err
	}
	defer w.stop()
	used, begin := processorTime(k.Pid()), time.Now()
	if err := createPods(ctx, client, c.pods, o.workers, func(i int) string { return fmt.Sprintf("bench-%d", i) }); err != nil {
		return err
	}
	at, err := w.await(ctx, c.pods, c.pods)
	if err != nil {
		return err
	}
	c.bound, c.running = float64(c.pods)/at.bound.Sub(begin).Seconds(), float64(c.pods)/at.running.Sub(begin).Seconds()
	c.kernel = float64((processorTime(k.Pid()) - used).Microseconds()) / float64(c.pods)
	if c.busy, c.busyAll, err = residents(k.Pid()); err != nil {
		return err
	}
	return w.check(nodes)
}

// residents is the resident memory of a kernel alone and with its plugins, in MB.
func residents(pid int) (kernel, all float64, err error) {
	list, err := weigh(pid)
	for _, p := range list {
		if all += mb(p.RSS); p.PID == pid {
			kernel = mb(p.RSS)
		}
	}
	return kernel, all, err
}

// goroutinesOf counts those of the kernel.
func goroutinesOf(ctx context.Context, cfg *rest.Config) (n int, err error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return 0, err
	}
	text, err := client.RESTClient().Get().AbsPath("/debug/pprof/goroutine").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(string(text), "goroutine profile: total %d", &n)
	return n, err
}

// nobodyLost asserts that no node was taken for dead and that each has a Lease.
func nobodyLost(ctx context.Context, client kubernetes.Interface, nodes int) error {
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(leases.Items) != nodes {
		return fmt.Errorf("%d Leases of %d nodes", len(leases.Items), nodes)
	}
	_, err = awaitNodesFor(ctx, client, nodes, time.Second)
	return err
}

func (c crowd) figures() []figure {
	name := fmt.Sprintf("%d hollow nodes", c.nodes)
	f := []figure{
		middle(name+": kernel with them idle", "MB", 0, c.idle).With("%.0f with plugins; %d goroutines", c.idleAll, c.goroutines),
		middle("  start to all ready", "s", 0, c.start.Seconds()).With("%.0f s of the kernel's processor time", c.startCost.Seconds()),
		middle("  processor time at rest", "%", 0, c.beat).With("of one processor, over %s", idleFor),
	}
	if c.busy > 0 {
		f = append(f,
			middle(fmt.Sprintf("  kernel with %d pods Running", c.pods), "MB", 0, c.busy).With("%.0f with plugins", c.busyAll),
			middle("  create to all Running", "pods/s", 0, c.running).With("%.0f to all bound; %.0f us of the kernel's processor time a pod", c.bound, c.kernel))
	}
	return f
}
