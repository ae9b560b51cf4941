package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/e2e/cluster"
)

const installConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s]
  bundles:
  - name: classic
scheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 200ms
  profiles:
  - {schedulerName: default-scheduler, predicates: [HostName, PodFitsResources]}
`

// install measures the way of an operator: a bundle that is built is installed
// into a running kernel and enabled, and a pod is refused by it.
func (b *pluginBench) install(ctx context.Context) error {
	for _, transport := range transports {
		dir := filepath.Join(b.dir, transport, "versioned")
		manifest := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: versioned\nversion: 1.0.0\nplugins:\n- {name: Picky, kind: predicate, scope: node}\n"
		if err := buildBundle(ctx, dir, versionsPackage, manifest, []string{transport}, "-ldflags=-s -w -X main.version=1.0.0"); err != nil {
			return err
		}
		var decided, installed []float64
		for range max(b.o.rounds, 5) {
			first, whole, err := b.installOnce(ctx, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", transport, err)
			}
			installed, decided = append(installed, float64(first)/1e6), append(decided, float64(whole)/1e6)
		}
		b.figures = append(b.figures, middle(transport+": install to first decision, already built", "ms", goals{1000, 300}.of(transport), decided...).
			With("the command install --enable takes %.0f ms of it", median(installed)))
	}
	return nil
}

func (b *pluginBench) installOnce(ctx context.Context, bundle string) (command, decision time.Duration, err error) {
	bin, err := cluster.Bin()
	if err != nil {
		return 0, 0, err
	}
	dir, file, err := writeConfig(fmt.Sprintf(installConfig, filepath.Join(bin, "plugins")))
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	defer removeAll(data)
	c, err := cluster.Start(ctx, cluster.Options{Name: "bench-plugin-install", Config: file, Data: data})
	if err != nil {
		return 0, 0, err
	}
	defer c.Kill()
	client, _, err := clientOf(c)
	if err != nil {
		return 0, 0, err
	}
	if err := awaitServiceAccount(ctx, client); err != nil {
		return 0, 0, err
	}
	if err := addRoom(ctx, client); err != nil {
		return 0, 0, err
	}
	watch, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "first").String()})
	if err != nil {
		return 0, 0, err
	}
	defer watch.Stop()
	began := time.Now()
	if _, err := pintle(ctx, "plugin", "install", bundle, "--data", data, "--enable"); err != nil {
		return 0, 0, err
	}
	command = time.Since(began)
	pod := samplePod("first")
	pod.Labels["picky"] = "yes"
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // no kubelet makes the node ready
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case e, ok := <-watch.ResultChan():
			if !ok {
				return 0, 0, fmt.Errorf("the watch of the pod ended")
			}
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if p.Spec.NodeName != "" {
				return 0, 0, fmt.Errorf("the pod is bound to %s in spite of the plugin", p.Spec.NodeName)
			}
			for _, condition := range p.Status.Conditions {
				if condition.Type != corev1.PodScheduled || condition.Status != corev1.ConditionFalse {
					continue
				}
				decision = time.Since(began)
				if !strings.Contains(condition.Message, "refused by version 1.0.0") {
					return 0, 0, fmt.Errorf("the pod is refused by another: %s", condition.Message)
				}
				return command, decision, c.Stop(syscall.SIGTERM)
			}
		}
	}
}

// addRoom creates a node that pods fit on.
func addRoom(ctx context.Context, client kubernetes.Interface) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status = corev1.NodeStatus{Capacity: room, Allocatable: room}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}
