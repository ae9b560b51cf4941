package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHorizontalPodAutoscaler: a deployment that works grows, and shrinks when it rests,
// by what the API of resource metrics says that its pods use. The target is low: on a
// machine that is busy a pod gets little more than it requests.
func TestHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	in, refused := e.within(t, ns)
	e.apply(t, ns, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: `+box+`, args: [serve], resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 200m}}, readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 2}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 5}}}]
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: lost}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}, maxReplicas: 3}
`)
	in("rollout", "status", "deployment/web", "--timeout=120s")
	first := strings.TrimSpace(in("get", "pods", "-l", "app=web", "-o", "name"))

	// What it uses is known within two measurements.
	top := regexp.MustCompile(`(?m)^web-\S+ +\d+m +\d+Mi *$`)
	eventually(t, func(context.Context) error {
		if r := e.try(t, "-n", ns, "top", "pods"); !top.MatchString(r.stdout) {
			return errors.New(r.stdout + r.stderr)
		}
		return nil
	})
	condition := func(h *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
		for _, c := range h.Status.Conditions {
			if c.Type == kind {
				return fmt.Sprintf("%s %s", c.Status, c.Reason)
			}
		}
		return "none"
	}
	size := func(want int32) {
		t.Helper()
		within(t, 2*patience, func(ctx context.Context) error {
			d, err := e.client.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			h, err := e.client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if d.Status.Replicas != want || h.Status.CurrentReplicas != want || condition(h, autoscalingv2.ScalingActive) != "True ValidMetricFound" {
				return fmt.Errorf("%d replicas, want %d: %+v", d.Status.Replicas, want, h.Status)
			}
			return nil
		})
	}
	size(1)
	in("exec", first, "--", "/box", "get", "http://127.0.0.1:8080/work")
	size(3)
	contains(t, in("get", "hpa", "web"), "Deployment/web", "cpu: ", "/5%")
	contains(t, in("describe", "hpa", "web"), "AbleToScale", "ScalingActive", "ScalingLimited", "TooManyReplicas", "reason: cpu resource utilization (percentage of request) above target")
	in("exec", first, "--", "/box", "get", "http://127.0.0.1:8080/rest")
	size(1)
	eventually(t, func(context.Context) error {
		if out := in("get", "events", "--field-selector", "reason=SuccessfulRescale,involvedObject.name=web"); !strings.Contains(out, "New size: 1; reason: All metrics below target") {
			return errors.New(out)
		}
		return nil
	})

	// One whose target there is not says so.
	eventually(t, func(ctx context.Context) error {
		h, err := e.client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(ctx, "lost", metav1.GetOptions{})
		if err == nil && condition(h, autoscalingv2.AbleToScale) != "False FailedGetScale" {
			err = fmt.Errorf("%+v", h.Status)
		}
		return err
	})
	contains(t, in("get", "events", "--field-selector", "reason=FailedGetScale"), `deployments.apps "none" not found`)
	metricsAreServed(t, e, in, refused)
}

// metricsAreServed: the API of resource metrics, as kubectl and others ask for it.
func metricsAreServed(t *testing.T, e *env, in func(args ...string) string, refused func(words string, args ...string)) {
	t.Helper()
	contains(t, e.kubectl(t, "top", "nodes"), "CPU(cores)", "MEMORY(%)")
	contains(t, in("top", "pods", "--containers"), "POD", "NAME", "CPU(cores)", " c ")
	contains(t, in("get", "podmetrics", "-l", "app=web"), "NAME", "CPU", "MEMORY", "WINDOW", "web-")
	if out := in("get", "podmetrics", "-l", "app=other", "-o", "name"); strings.TrimSpace(out) != "" {
		t.Errorf("metrics of other labels: %s", out)
	}
	name := strings.TrimSpace(in("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"))
	if out := strings.TrimSpace(in("get", "podmetrics", "--field-selector", "metadata.name="+name, "-o", "name")); out != "podmetrics.metrics.k8s.io/"+name {
		t.Errorf("metrics by name: %q", out)
	}
	contains(t, e.kubectl(t, "get", "nodemetrics"), "NAME", "CPU", "MEMORY", "WINDOW")
	refused("NotFound", "get", "podmetrics", "none")
	refused("MethodNotAllowed", "delete", "podmetrics", name)
	in("create", "serviceaccount", "reader")
	as := "--as=system:serviceaccount:" + strings.TrimSpace(in("get", "serviceaccount", "reader", "-o", "jsonpath={.metadata.namespace}")) + ":reader"
	refused("Forbidden", "get", "podmetrics", as)
	in("create", "role", "metrics", "--verb=get,list", "--resource=pods.metrics.k8s.io")
	in("create", "rolebinding", "metrics", "--role=metrics", "--serviceaccount="+strings.ReplaceAll(strings.TrimPrefix(as, "--as=system:serviceaccount:"), "reader", "")+"reader")
	eventually(t, func(context.Context) error {
		if r := e.try(t, "-n", in("get", "serviceaccount", "reader", "-o", "jsonpath={.metadata.namespace}"), "get", "podmetrics", as); r.err != nil {
			return errors.New(r.stderr)
		}
		return nil
	})
	list, err := e.client.CoreV1().Nodes().List(bound(t), metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		t.Fatal(err)
	}
	usage := e.kubectl(t, "get", "nodemetrics", list.Items[0].Name, "-o", "jsonpath={.usage}")
	contains(t, usage, string(corev1.ResourceCPU), string(corev1.ResourceMemory))
}
