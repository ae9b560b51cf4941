package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

const namespace = "default"

// clientOf returns a client without a rate limit of its own.
func clientOf(c *cluster.Cluster) (kubernetes.Interface, *rest.Config, error) {
	_, cfg, err := c.Client()
	if err != nil {
		return nil, nil, err
	}
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	return client, cfg, err
}

// samplePod is a pod of an ordinary Deployment: labels, one container with
// requests.
func samplePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "bench", "tier": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "docker.io/pintle/pause:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}}},
	}
}

// createPods creates n pods from several workers and returns when every one
// was acknowledged, or the first error.
func createPods(ctx context.Context, client kubernetes.Interface, n, workers int, name func(int) string) error {
	return parallel(ctx, n, workers, func(ctx context.Context, i int) error {
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, samplePod(name(i)), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %s: %w", name(i), err)
		}
		return nil
	})
}

// awaitServiceAccount waits for what pods need in their namespace: the
// controller makes it, and without that controller this does.
func awaitServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	for {
		_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
		if err == nil || isExists(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// writeConfig writes a configuration file for one benchmark and returns the
// folder, which the caller removes, and the file.
func writeConfig(text string) (dir, file string, err error) {
	if dir, err = os.MkdirTemp("", "ptb"); err != nil {
		return "", "", err
	}
	file = filepath.Join(dir, "config.yaml")
	return dir, file, os.WriteFile(file, []byte(text), 0o600)
}
