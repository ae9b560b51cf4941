package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// scaleSizes are the clusters at which the time a pod is measured, as far as
// -scale-nodes lets them grow.
var scaleSizes = []int{500, 1000, 2000, 5000, 10_000, 20_000, 50_000}

// scaleShapes is how many shapes of pods come at each size, as of so many
// Deployments that are rolled out at once. They are new to the scheduler, so that
// each is first asked about every node.
const scaleShapes = 20

// scaleLimits are those of plugins for clusters of this size: the replica in a module
// takes more than 256 MiB, and the first look at all nodes of a cluster more than a
// second where the processors are wanted by others.
var scaleLimits = map[string]any{"memoryLimit": "1Gi", "callTimeout": "10s"}

// grown is what was measured at one size.
type grown struct {
	nodes   int
	created float64 // nodes a second
	rate    float64 // pods a second, create to bound
	kernel  float64 // processor time of the kernel, us a pod
	client  float64 // the same of this process, which shares the processors
	decided decisions
	rss     float64 // bytes, when all were bound
}

func (g grown) String() string {
	return fmt.Sprintf("%.0f pods/s; %.0f us of the kernel's processor time a pod (clients %.0f); decisions: %s; %.0f MB",
		g.rate, g.kernel, g.client, g.decided, mb(g.rss))
}

// growing is one kernel while it grows.
type growing struct {
	options
	*contender
	client kubernetes.Interface
	bound  *bindings
	nodes  int
	pods   int
}

// measureScale lets one kernel grow to 50,000 plain nodes, binds pods of some new
// shapes at each size, and fills up to 100,000 pods at the last. What was measured
// before it failed or was interrupted is returned with the error.
func measureScale(ctx context.Context, o options) (figures []figure, err error) {
	dir, err := os.MkdirTemp(o.storeDir, "ptb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := o.policy()
	if err != nil {
		return nil, err
	}
	p.limits = scaleLimits
	c, err := p.pintle(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if c.apiServer != nil { // it did not start again
			err = errors.Join(err, c.stop(syscall.SIGTERM))
		}
	}()
	if err := c.prepare(ctx, measured, there); err != nil {
		return nil, err
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	g := &growing{options: o, contender: c, client: client}
	defer func() {
		if g.bound != nil {
			g.bound.stop()
		}
	}()
	sizes, err := g.grow(ctx)
	for _, one := range sizes {
		figures = append(figures, one.figures(fmt.Sprintf("%d nodes: processor time of the kernel a pod", one.nodes))...)
	}
	if first, last := 0, len(sizes)-1; last > first {
		figures = append(figures, growthOf(sizes[first], sizes[last])...)
	}
	if len(sizes) > 0 {
		err = errors.Join(err, growthChart(filepath.Join(o.out, "scale.svg"), sizes))
	}
	if err != nil {
		return figures, err
	}
	more, err := g.fill(ctx, p)
	return append(figures, more...), err
}

// grow measures at each size.
func (g *growing) grow(ctx context.Context) (sizes []grown, err error) {
	for _, size := range scaleSizes {
		size = min(size, g.scaleNodes)
		if size == g.nodes {
			break
		}
		step("%d nodes", size)
		begin, more := time.Now(), size-g.nodes
		if err := createNodes(ctx, g.client, g.nodes, more, "zone-a", "zone-b", "zone-c"); err != nil {
			return sizes, err
		}
		created := float64(more) / time.Since(begin).Seconds()
		if g.nodes == 0 {
			if err := g.warm(ctx, g.client); err != nil {
				return sizes, err
			}
			if g.bound, err = followBindings(ctx, g.client); err != nil {
				return sizes, err
			}
		}
		g.nodes = size
		done := g.startProfile(g.cfg, fmt.Sprintf("scale-%d", size))
		one, err := g.add(ctx, g.scaleStep)
		if err != nil {
			return sizes, err
		}
		done()
		one.created = created
		sizes = append(sizes, one)
	}
	return sizes, nil
}

// fill brings the pods to their number, and weighs the kernel with all of them.
func (g *growing) fill(ctx context.Context, p policy) (figures []figure, err error) {
	if rest := g.scalePods - g.pods; rest > 0 {
		done := g.startProfile(g.cfg, "scale")
		last, err := g.add(ctx, rest)
		if err != nil {
			return nil, err
		}
		done()
		figures = append(figures, least(fmt.Sprintf("%d nodes, %d pods: create to bound", g.nodes, g.pods), "pods/s", 0, last.rate).With("the last %d; %s", rest, p.name))
		figures = append(figures, last.figures("  processor time of the kernel a pod")...)
	}
	rss, anonymous, err := g.memory()
	if err != nil {
		return figures, err
	}
	figures = append(figures, middle("  resident memory with all of them, at once", "MB", 0, mb(rss)).With("anonymous %.0f", mb(anonymous)))
	step("waiting %s, then weighing", idleFor)
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return figures, ctx.Err()
	}
	if rss, anonymous, err = g.memory(); err != nil {
		return figures, err
	}
	figures = append(figures, middle("  resident memory at rest", "MB", 0, mb(rss)).With("anonymous %.0f; after %s", mb(anonymous), idleFor))
	again, err := g.startAgain(ctx)
	if err != nil {
		return figures, err
	}
	return append(figures, again...), checkPlaced(ctx, g.client, g.pods, nil)
}

// startAgain stops the kernel and starts it with all that is stored, until one more
// pod is bound.
func (g *growing) startAgain(ctx context.Context) ([]figure, error) {
	step("starting again with all of them")
	g.bound.stop()
	g.bound = nil
	if err := g.stop(syscall.SIGTERM); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := g.schedule(ctx); err != nil {
		return nil, err
	}
	ready := time.Since(begin)
	client, err := g.contender.client()
	if err != nil {
		return nil, err
	}
	g.client = client
	pods := client.CoreV1().Pods(measured)
	pod, err := pods.Create(ctx, scalePod(g.pods, 0), plainCreate)
	if err != nil {
		return nil, err
	}
	g.pods++
	for pod.Spec.NodeName == "" {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	bound := time.Since(begin)
	rss, _, err := g.memory()
	return []figure{
		middle("  start with all of them, to /readyz", "s", 0, ready.Seconds()),
		middle("  the same, to a new pod bound", "s", 0, bound.Seconds()).With("%.0f MB then", mb(rss)),
	}, err
}

// add binds more pods.
func (g *growing) add(ctx context.Context, count int) (one grown, err error) {
	step("%d nodes: %d pods", g.nodes, count)
	before, err := decisionsOf(ctx, g.contender)
	if err != nil {
		return one, err
	}
	first := g.pods
	used, own, begin := g.processorTime(), processorTime(os.Getpid()), time.Now()
	err = createAll(ctx, g.client, measured, count, g.workers, func(i int) *corev1.Pod { return scalePod(first, i) })
	if err != nil {
		return one, err
	}
	g.pods += count
	if err := g.bound.await(ctx, g.pods); err != nil {
		return one, err
	}
	a := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(count) }
	one = grown{
		nodes: g.nodes, rate: float64(count) / time.Since(begin).Seconds(),
		kernel: a(g.processorTime() - used), client: a(processorTime(os.Getpid()) - own),
	}
	after, err := decisionsOf(ctx, g.contender)
	if err != nil {
		return one, err
	}
	one.decided = after.since(before)
	one.rss, _, err = g.memory()
	fmt.Println("   ", one)
	return one, err
}

// scalePod is pod i of those that are added to first others: of one of scaleShapes
// sizes and labels, so small that twenty of the largest fit on a node.
func scalePod(first, i int) *corev1.Pod {
	kind := i % scaleShapes
	p := plainPod(fmt.Sprintf("pod-%d", first+i), fmt.Sprintf("%dm", 10+kind))
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d-%d", first, kind)}
	return p
}

func (g grown) figures(name string) []figure {
	return []figure{middle(name, "us", 0, g.kernel).With("%s", g)}
}

func growthOf(first, last grown) []figure {
	f := middle(fmt.Sprintf("  from %d to %d nodes, %gx", first.nodes, last.nodes, float64(last.nodes)/float64(first.nodes)), "x", 0, last.kernel/first.kernel)
	return []figure{f.With("time of a decision %.1fx", last.decided.mean()/first.decided.mean())}
}
