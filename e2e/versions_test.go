package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/e2e/cluster"
)

// scaler is an object of a version that the older kernel does not serve. Its target
// does not exist, so that it scales nothing.
func scaler(name string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 2, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "another", APIVersion: "apps/v1"},
	}}
}

// TestVersionsOnOneEtcd: a cluster of two kernels is upgraded one by one. The older one
// serves less; it is a kernel that an earlier build made, where E2E_FORMER names one.
// What only the newer serves is had by way of the older while both are up, refused
// clearly while the newer is away, and not lost; workloads go on under either.
func TestVersionsOnOneEtcd(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	data, now := t.TempDir(), s.config
	text, err := os.ReadFile(now)
	if err != nil {
		t.Fatal(err)
	}
	less := string(text) + "api: {runtimeConfig: {autoscaling/v2: \"false\", certificates.k8s.io/v1: \"false\"}}\n"
	former := write(t, filepath.Join(t.TempDir(), "former.yaml"), less)
	launch := func(name, address, config, program string) *env {
		t.Helper()
		s.config, s.program = config, program
		return s.launch(t, name, filepath.Join(data, name), address, 2)
	}
	newer := launch("newer", cluster.NodeIP, now, "")
	newerRuns := true
	defer func() {
		if newerRuns {
			end(t, newer)
		}
	}()
	if _, err := newer.client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(bound(t), scaler("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels, replicas := map[string]string{"app": "web"}, int32(6)
	if _, err := newer.client.AppsV1().Deployments("default").Create(bound(t), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	older := launch("older", secondIP, former, os.Getenv("E2E_FORMER"))
	olderRuns := true
	defer func() {
		if olderRuns {
			end(t, older)
		}
	}()
	// has waits until a kernel gives scalers of these names, and tells their UIDs.
	has := func(e *env, names ...string) (ids []types.UID) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			ids = nil
			list, err := e.client.AutoscalingV2().HorizontalPodAutoscalers("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("by %s: %w", e.Name, err)
			}
			var found []string
			for _, o := range list.Items {
				found, ids = append(found, o.Name), append(ids, o.UID)
			}
			if !slices.Equal(found, names) {
				return fmt.Errorf("by %s: %v, want %v", e.Name, found, names)
			}
			return nil
		})
		return ids
	}
	runs := func(e *env, want int32) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			d, err := e.client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
			if err != nil || d.Status.AvailableReplicas != want || d.Status.UpdatedReplicas != want {
				return fmt.Errorf("by %s: %+v: %w", e.Name, d.Status, err)
			}
			return nil
		})
	}
	scaled := func(e *env, n int32) {
		t.Helper()
		if _, err := e.client.AppsV1().Deployments("default").Patch(bound(t), "web", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has(older, "first")
	if _, err := older.client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(bound(t), scaler("second"), metav1.CreateOptions{}); err != nil {
		t.Errorf("by way of the older: %v", err)
	}
	before := has(newer, "first", "second")
	runs(older, 6)
	// living counts the pods that are ready on nodes of the older: those of the newer
	// become unready when it has been away for a while.
	living := func(ctx context.Context) (n int, err error) {
		pods, err := older.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return 0, err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if strings.HasPrefix(p.Spec.NodeName, "older-") && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				n++
			}
		}
		return n, nil
	}
	alive, err := living(bound(t))
	if err != nil {
		t.Fatal(err)
	}

	// The newer is away: a clear refusal, and the work goes on.
	newer.Kill()
	newerRuns = false
	// 503 while it may come back, as it was killed; 404 after an orderly stop.
	if err := older.client.AutoscalingV2().HorizontalPodAutoscalers("default").Delete(bound(t), "first", metav1.DeleteOptions{}); !apierrors.IsServiceUnavailable(err) && !apierrors.IsNotFound(err) {
		t.Errorf("what no kernel serves: %v", err)
	}
	nodes, err := older.client.CoreV1().Nodes().List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; strings.HasPrefix(name, "newer-") { // nothing is to wait for them
			older.kubectl(t, "cordon", name)
		}
	}
	scaled(older, 8)
	eventually(t, func(ctx context.Context) error {
		d, err := older.client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		n, err := living(ctx)
		if err != nil || n < alive+2 || d.Status.UpdatedReplicas != 8 {
			return fmt.Errorf("%d pods are ready on nodes of the older, want %d; %+v: %w", n, alive+2, d.Status, err)
		}
		return nil
	})

	// It comes back, and the older is exchanged.
	newer = launch("newer", cluster.NodeIP, now, "")
	newerRuns = true
	if after := has(newer, "first", "second"); !slices.Equal(after, before) {
		t.Errorf("the scalers are %v, they were %v", after, before)
	}
	olderRuns = false
	end(t, older)
	older = launch("older", secondIP, now, "")
	olderRuns = true
	if after := has(older, "first", "second"); !slices.Equal(after, before) {
		t.Errorf("after the upgrade the scalers are %v, they were %v", after, before)
	}
	scaled(older, 4)
	runs(older, 4)
	runs(newer, 4)
}
