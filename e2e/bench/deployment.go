package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	endpointsliceutil "k8s.io/endpointslice/util"

	"pintle.dev/pintle/e2e/cluster"
)

// deploymentConfig is standalone's set of rules and controllers over simulated nodes.
const deploymentConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: .data-bench
logging: {level: warn}
api: {bindAddress: 127.0.0.1}
plugins:
  bundles:
  - {name: modern, transport: wasm}
  - {name: volumebinding}
  - {name: controllers}
  - {name: hollow, privileged: true}
scheduler:
  profiles:
  - schedulerName: default-scheduler
    preFilter: [NodeAffinityPreFilter]
    predicates: [NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity]
    priorities:
    - {name: NodeResourcesFitScore, weight: 1}
    - {name: PodTopologySpreadScore, weight: 2}
    - {name: NodeResourcesBalancedAllocation, weight: 1}
controllers:
  enabled: [deployment, replicaset, endpoints, endpointslice, nodelifecycle, tainteviction, namespace, serviceaccount, podgc, garbagecollector, resourcequota, disruption]
node: {enabled: false}
hollow: {nodes: %d, runtime: hollow}
`

// deployed is what one round of deployment measured.
type deployed struct {
	ready, gap, deleted float64 // seconds until all pods were ready; longest without a new one; until all were gone
	peak, soon, later   float64 // anonymous MB: the most; 10 s and 30 s after the last pod was ready
	alive               float64 // MB of heap alive then
}

// measureDeployment makes one Deployment on hollow nodes, and deletes it again: how long each
// takes, how evenly pods become ready, and what memory the kernel keeps.
func measureDeployment(ctx context.Context, o options) ([]figure, error) {
	var ready, gap, deleted, peak, soon, later, alive []float64
	for range o.rounds {
		d, err := deploymentRound(ctx, o)
		if err != nil {
			return nil, err
		}
		ready, gap, deleted = append(ready, d.ready), append(gap, d.gap), append(deleted, d.deleted)
		peak, soon, later, alive = append(peak, d.peak), append(soon, d.soon), append(later, d.later), append(alive, d.alive)
	}
	return []figure{
		most("create to all pods ready", "s", 0, ready...).With("one Deployment of %d, %d hollow nodes", o.pods, o.deploymentNodes),
		most("longest time without a pod that became ready", "s", 0, gap...),
		most("delete to all pods gone", "s", 0, deleted...),
		most("most anonymous memory of the kernel", "MB", 0, peak...),
		most("anonymous memory 10 s after the last pod was ready", "MB", 0, soon...),
		most("anonymous memory 30 s after the last pod was ready", "MB", 0, later...),
		most("heap alive then", "MB", 0, alive...),
	}, nil
}

func deploymentRound(ctx context.Context, o options) (d deployed, err error) {
	dir, config, err := writeConfig(fmt.Sprintf(deploymentConfig, o.deploymentNodes))
	defer os.RemoveAll(dir)
	if err != nil {
		return d, err
	}
	c, err := cluster.Start(ctx, cluster.Options{SuperAdmin: true, Name: "bench-deployment", Config: config})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	client, cfg, err := clientOf(c)
	if err != nil {
		return d, err
	}
	if err := awaitServiceAccount(ctx, client); err != nil {
		return d, err
	}
	if _, err := awaitNodes(ctx, client, o.deploymentNodes); err != nil {
		return d, err
	}
	p, err := watchReadiness(ctx, client)
	if err != nil {
		return d, err
	}
	defer p.stop()
	wctx, cancel := context.WithCancel(ctx)
	weighed := make(chan float64, 1)
	go func() { weighed <- mostAnonymous(wctx, c.Pid()) }()
	defer cancel()
	done := o.startProfile(cfg, "deployment")
	begin := time.Now()
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, bigDeployment(o.pods), metav1.CreateOptions{}); err != nil {
		return d, err
	}
	if err := p.awaitReady(ctx, o.pods); err != nil {
		return d, err
	}
	d.ready = time.Since(begin).Seconds()
	d.gap = p.longest(begin).Seconds()
	for i, into := range []*float64{&d.soon, &d.later} {
		select {
		case <-time.After(time.Duration(i+1) * 10 * time.Second):
		case <-ctx.Done():
			return d, ctx.Err()
		}
		m, err := measure(c.Pid())
		if err != nil {
			return d, err
		}
		*into = mb(m.Anonymous)
	}
	if d.alive, err = liveHeap(ctx, client); err != nil {
		return d, err
	}
	begin = time.Now()
	if err := client.AppsV1().Deployments(namespace).Delete(ctx, deploymentName, metav1.DeleteOptions{}); err != nil {
		return d, err
	}
	if err := p.awaitGone(ctx); err != nil {
		return d, err
	}
	d.deleted = time.Since(begin).Seconds()
	done()
	cancel()
	d.peak = <-weighed
	fmt.Printf("  ready after %.1f s, longest without one %.1f s, gone after %.1f s; anonymous %.0f MB at most, %.0f after 10 s, %.0f after 30 s, %.0f alive\n", d.ready, d.gap, d.deleted, d.peak, d.soon, d.later, d.alive)
	return d, nil
}

// mostAnonymous is the largest anonymous memory of a process until ctx ends, in MB.
func mostAnonymous(ctx context.Context, pid int) (peak float64) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-tick.C:
			if m, err := measure(pid); err == nil {
				peak = max(peak, mb(m.Anonymous))
			}
		}
	}
}

const deploymentName = "bench"

func bigDeployment(replicas int) *appsv1.Deployment {
	n, labels := int32(replicas), map[string]string{"app": deploymentName}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: deploymentName, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			}}}},
		}},
	}
}

// liveHeap is what of the kernel's heap is alive, in MB: it has collected just before.
func liveHeap(ctx context.Context, client kubernetes.Interface) (float64, error) {
	raw := func(path, param, value string) ([]byte, error) {
		return client.CoreV1().RESTClient().Get().AbsPath(path).Param(param, value).DoRaw(ctx)
	}
	if _, err := raw("/debug/pprof/heap", "gc", "1"); err != nil {
		return 0, err
	}
	b, err := raw("/metrics", "", "")
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	const name = "go_memstats_heap_alloc_bytes"
	if len(families[name].GetMetric()) != 1 {
		return 0, fmt.Errorf("the kernel has no metric %s", name)
	}
	return mb(families[name].Metric[0].GetGauge().GetValue()), nil
}

// readiness follows the pods of the namespace.
type readiness struct {
	*podStream

	there map[types.UID]bool
	ready map[types.UID]bool
	times []time.Time // when each became ready
}

func watchReadiness(ctx context.Context, client kubernetes.Interface) (*readiness, error) {
	r := &readiness{there: map[types.UID]bool{}, ready: map[types.UID]bool{}}
	var err error
	r.podStream, err = followPods(ctx, client, r.see)
	return r, err
}

// see takes a change of a pod in.
func (r *readiness) see(change watch.EventType, pod *corev1.Pod) error {
	if change == watch.Deleted {
		delete(r.there, pod.UID)
		return nil
	}
	r.there[pod.UID] = true
	if !r.ready[pod.UID] && endpointsliceutil.IsPodReady(pod) {
		r.ready[pod.UID] = true
		r.times = append(r.times, time.Now())
	}
	return nil
}

// awaitReady returns when so many pods have become ready.
func (r *readiness) awaitReady(ctx context.Context, want int) error {
	return r.await(ctx, func() (bool, string) {
		return len(r.ready) >= want, fmt.Sprintf("%d of %d pods became ready", len(r.ready), want)
	})
}

// awaitGone returns when no pod is there.
func (r *readiness) awaitGone(ctx context.Context) error {
	return r.await(ctx, func() (bool, string) {
		return len(r.there) == 0, fmt.Sprintf("%d pods are left", len(r.there))
	})
}

// longest is the longest time in which no pod became ready, between begin and the last one.
func (r *readiness) longest(begin time.Time) (gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.times {
		gap = max(gap, at.Sub(begin))
		begin = at
	}
	return gap
}
