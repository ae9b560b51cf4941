package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/e2e/cluster"
)

const goalSchedule = 1500 // pods a second

// hollowConfig runs the classic set over simulated nodes: %s the transport, %s
// the bundles and controllers, %d the nodes.
const hollowConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: .data-bench
logging: {level: warn}
api: {bindAddress: 127.0.0.1}
plugins:
  bundles:
  - {name: classic, transport: %s}
  - {name: controllers}
  - {name: hollow, privileged: true}
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates:
    - CheckNodeUnschedulable
    - HostName
    - PodToleratesNodeTaints
    - MatchNodeSelector
    - PodFitsHostPorts
    - PodFitsResources
    - NoDiskConflict
    - MaxEBSVolumeCount
    - MaxGCEPDVolumeCount
    - NoVolumeZoneConflict
    priorities:
    - {name: LeastRequestedPriority, weight: 1}
    - {name: BalancedResourceAllocation, weight: 1}
    - {name: SelectorSpreadPriority, weight: 1}
    - {name: NodeAffinityPriority, weight: 1}
    - {name: ServiceSpreadingPriority, weight: 1}
    - {name: ImageLocalityPriority, weight: 1}
    - {name: EqualPriority, weight: 1}
controllers:
  enabled: [nodelifecycle, tainteviction, serviceaccount, namespace]
node: {enabled: false}
hollow: {nodes: %d, runtime: hollow}
`

// placed is what one round of schedule measured.
type placed struct {
	bound, running  float64 // pods a second, from the first create
	nodesReady      float64 // seconds from start to every node schedulable
	rss, idle, busy float64 // MB with idle nodes; processors used by those; MB with all pods

	kernel, plugins, clients float64 // processor time until all were bound, in µs a pod
}

// schedule measures how fast pods are created and bound to simulated nodes
// with real agents. Nothing runs on those nodes, and everything else is real.
func schedule(ctx context.Context, o options) ([]figure, error) {
	var bound, running, ready, rss, idle, busy, kernel, plugins, clients []float64
	for range o.rounds {
		p, err := scheduleRound(ctx, o)
		if err != nil {
			return nil, err
		}
		bound, running, ready = append(bound, p.bound), append(running, p.running), append(ready, p.nodesReady)
		rss, idle, busy = append(rss, p.rss), append(idle, p.idle), append(busy, p.busy)
		kernel, plugins, clients = append(kernel, p.kernel), append(plugins, p.plugins), append(clients, p.clients)
	}
	set := "classic set, " + o.transport
	return []figure{
		least("create to all bound", "pods/s", goalSchedule, bound...).With("%d hollow nodes, %d pods, %d workers, %s", o.nodes, o.pods, o.workers, set),
		most("processor time of the kernel a pod", "µs", 0, kernel...).With("until all are bound"),
		most("processor time of process plugins a pod", "µs", 0, plugins...),
		most("processor time of the clients a pod", "µs", 0, clients...),
		least("create to all Running", "pods/s", 0, running...).With("simulated containers"),
		most("start to all hollow nodes schedulable", "s", 0, ready...),
		most("kernel with idle hollow nodes", "MB", 0, rss...),
		most("processor time of idle hollow nodes", "%", 0, idle...).With("of one processor"),
		most("kernel with all pods Running", "MB", 0, busy...),
	}, nil
}

func scheduleRound(ctx context.Context, o options) (p placed, err error) {
	transport, set := o.transport, []string(nil)
	if transport == worker {
		transport, set = "wasm", []string{"plugins.wasmWorker=all"}
	}
	dir, config, err := writeConfig(fmt.Sprintf(hollowConfig, transport, o.nodes))
	defer os.RemoveAll(dir)
	if err != nil {
		return p, err
	}
	begin := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{SuperAdmin: true, Name: "bench-schedule", Config: config, Set: set})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	client, cfg, err := clientOf(c)
	if err != nil {
		return p, err
	}
	if err := awaitServiceAccount(ctx, client); err != nil {
		return p, err
	}
	nodes, err := awaitNodes(ctx, client, o.nodes)
	if err != nil {
		return p, err
	}
	p.nodesReady = time.Since(begin).Seconds()
	if p.idle, p.rss, err = idleCost(ctx, c.Pid()); err != nil {
		return p, err
	}
	w, err := watchPods(ctx, client)
	if err != nil {
		return p, err
	}
	defer w.stop()
	used, err := timesOf(c.Pid())
	if err != nil {
		return p, err
	}
	done := o.startProfile(cfg, "schedule")
	begin = time.Now()
	if err := createPods(ctx, client, o.pods, o.workers, func(i int) string { return fmt.Sprintf("bench-%d", i) }); err != nil {
		return p, err
	}
	created := time.Since(begin)
	at, err := w.await(ctx, o.pods, 0)
	if after, err := timesOf(c.Pid()); err == nil {
		a := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(o.pods) }
		p.kernel, p.plugins, p.clients = a(after.kernel-used.kernel), a(after.plugins-used.plugins), a(after.clients-used.clients)
	}
	done()
	if err != nil {
		return p, err
	}
	p.bound = float64(o.pods) / at.bound.Sub(begin).Seconds()
	fmt.Printf("  %d pods created in %.2f s and bound in %.2f s\n", o.pods, created.Seconds(), at.bound.Sub(begin).Seconds())
	if at, err = w.await(ctx, o.pods, o.pods); err != nil {
		return p, err
	}
	p.running = float64(o.pods) / at.running.Sub(begin).Seconds()
	if m, err := measure(c.Pid()); err == nil {
		p.busy = mb(m.RSS)
	}
	return p, w.check(nodes)
}

// awaitNodes waits until all nodes are ready and untainted, and returns them.
func awaitNodes(ctx context.Context, client kubernetes.Interface, want int) (map[string]bool, error) {
	return awaitNodesFor(ctx, client, want, 2*time.Minute)
}

func awaitNodesFor(ctx context.Context, client kubernetes.Interface, want int, patience time.Duration) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		nodes, why := map[string]bool{}, ""
		if err == nil {
			for _, n := range list.Items {
				if len(n.Spec.Taints) > 0 {
					why = fmt.Sprintf("; %s has taint %s", n.Name, n.Spec.Taints[0].ToString())
					continue
				}
				for _, condition := range n.Status.Conditions {
					if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
						nodes[n.Name] = true
					}
				}
			}
			if len(nodes) == want {
				return nodes, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%d of %d nodes are schedulable%s", len(nodes), want, why), err)
		case <-time.After(max(100*time.Millisecond, time.Duration(want)*time.Millisecond/10)):
		}
	}
}

// idleCost is the share of one processor that a process uses when left alone,
// in percent, and its resident memory in MB.
func idleCost(ctx context.Context, pid int) (percent, rss float64, err error) {
	const settle, window = 3 * time.Second, 10 * time.Second
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(settle); err != nil {
		return 0, 0, err
	}
	before := processorTime(pid)
	if err := wait(window); err != nil {
		return 0, 0, err
	}
	used := processorTime(pid) - before
	m, err := measure(pid)
	return 100 * used.Seconds() / window.Seconds(), mb(m.RSS), err
}

// times are the processor times of a kernel, its plugins and this process.
type times struct{ kernel, plugins, clients time.Duration }

func timesOf(kernel int) (times, error) {
	list, err := weigh(kernel)
	t := times{kernel: processorTime(kernel), clients: processorTime(os.Getpid())}
	for _, p := range list {
		if p.PID != kernel {
			t.plugins += processorTime(p.PID)
		}
	}
	return t, err
}

// podWatch follows every pod from before the first create.
type podWatch struct {
	*podStream

	node      map[types.UID]string
	running   map[types.UID]bool
	lastBound time.Time
	lastRun   time.Time
}

// moments are when the last pod was seen bound and Running.
type moments struct{ bound, running time.Time }

func watchPods(ctx context.Context, client kubernetes.Interface) (*podWatch, error) {
	p := &podWatch{node: map[types.UID]string{}, running: map[types.UID]bool{}}
	var err error
	p.podStream, err = followPods(ctx, client, p.see)
	return p, err
}

// see takes a change of a pod in.
func (p *podWatch) see(change watch.EventType, pod *corev1.Pod) error {
	if change == watch.Deleted {
		return fmt.Errorf("pod %s was deleted", pod.Name)
	}
	if pod.Status.Phase == corev1.PodRunning && !p.running[pod.UID] {
		p.running[pod.UID], p.lastRun = true, time.Now()
	}
	before, now := p.node[pod.UID], pod.Spec.NodeName
	if before != "" && now != before {
		return fmt.Errorf("pod %s was bound to %s, then to %q", pod.Name, before, now)
	}
	if now != "" && before == "" {
		p.node[pod.UID], p.lastBound = now, time.Now()
	}
	return nil
}

// await returns when so many pods were seen bound and Running.
func (p *podWatch) await(ctx context.Context, wantBound, wantRunning int) (m moments, err error) {
	err = p.podStream.await(ctx, func() (bool, string) {
		bound, running := len(p.node), len(p.running)
		m = moments{p.lastBound, p.lastRun}
		return bound >= wantBound && running >= wantRunning,
			fmt.Sprintf("%d pods bound of %d and %d Running of %d", bound, wantBound, running, wantRunning)
	})
	return m, err
}

// check asserts that every pod is on a node that exists.
func (p *podWatch) check(nodes map[string]bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, n := range p.node {
		if !nodes[n] {
			return fmt.Errorf("pod %s is bound to %q, which is no node", uid, n)
		}
	}
	return p.fault
}
