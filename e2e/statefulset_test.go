package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatefulSet: three replicas with names of their own in DNS, of which one is
// killed, that are rolled, rolled back and scaled by kubectl.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 8080}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: db}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: `+box+`, args: [serve], env: [{name: VERSION, value: one}], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {containers: [{name: c, image: `+box+`}]}
`)
	rolled := func() {
		t.Helper()
		e.kubectl(t, "-n", ns, "rollout", "status", "statefulset/db", "--timeout=120s")
	}
	version := func(pod string) string {
		t.Helper()
		p, err := e.client.CoreV1().Pods(ns).Get(bound(t), pod, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Spec.Containers[0].Env[0].Value
	}
	rolled()
	e.awaitPod(t, ns, "client", isReady)
	answer := func(pod string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			r := e.try(t, "-n", ns, "exec", "client", "--", "/box", "get", "http://"+pod+".db:8080/")
			if r.err != nil || !strings.HasPrefix(r.stdout, "200\n"+pod+" ") {
				return fmt.Errorf("%s: %+v", pod, r)
			}
			return nil
		})
	}
	for _, pod := range []string{"db-0", "db-1", "db-2"} {
		answer(pod)
	}
	eventually(t, func(ctx context.Context) error {
		b, err := e.client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "db", metav1.GetOptions{})
		if err == nil && (b.Status.ExpectedPods != 3 || b.Status.DisruptionsAllowed != 1) {
			err = fmt.Errorf("the budget counts %+v", b.Status)
		}
		return err
	})

	killed := e.awaitPod(t, ns, "db-1", isReady)
	e.kubectl(t, "-n", ns, "delete", "pod", "db-1")
	e.awaitPod(t, ns, "db-1", func(p *corev1.Pod) error {
		if p.UID == killed.UID {
			return fmt.Errorf("it is the one that was killed")
		}
		return isReady(p)
	})
	answer("db-1")

	e.kubectl(t, "-n", ns, "set", "env", "statefulset/db", "VERSION=two")
	rolled()
	for _, pod := range []string{"db-0", "db-1", "db-2"} {
		if got := version(pod); got != "two" {
			t.Errorf("%s has version %s", pod, got)
		}
	}
	history := e.kubectl(t, "-n", ns, "rollout", "history", "statefulset/db")
	if !strings.Contains(history, "\n1 ") || !strings.Contains(history, "\n2 ") {
		t.Errorf("history %s", history)
	}
	e.kubectl(t, "-n", ns, "rollout", "undo", "statefulset/db")
	rolled()
	if got := version("db-2"); got != "one" {
		t.Errorf("after the undo db-2 has version %s", got)
	}

	e.kubectl(t, "-n", ns, "scale", "statefulset/db", "--replicas=1")
	eventually(t, func(ctx context.Context) error {
		scale, err := e.client.AppsV1().StatefulSets(ns).GetScale(ctx, "db", metav1.GetOptions{})
		if err == nil && (scale.Status.Replicas != 1 || scale.Status.Selector != "app=db") {
			err = fmt.Errorf("scale %+v", scale.Status)
		}
		return err
	})
	eventually(t, func(ctx context.Context) error {
		list, err := e.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=StatefulSet,reason=SuccessfulDelete"})
		if err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Message == "Delete Pod db-2 in StatefulSet db successful" && event.Source.Component == "statefulset-controller" {
				return nil
			}
		}
		return fmt.Errorf("no event of the end of db-2 in %d", len(list.Items))
	})
	e.kubectl(t, "-n", ns, "delete", "statefulset", "db", "--timeout=60s")
}
