package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: %s, args: [wait], env: [{name: ROUND, value: "%d"}]}]
`

// rounds is the variable of each pod of the set by its node.
func (e *env) rounds(ctx context.Context, ns string) (map[string]string, error) {
	pods, err := e.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=d"})
	if err != nil {
		return nil, err
	}
	rounds := map[string]string{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			continue
		}
		if other, twice := rounds[p.Spec.NodeName]; twice {
			return nil, fmt.Errorf("node %q has two pods, of rounds %s and %s", p.Spec.NodeName, other, p.Spec.Containers[0].Env[0].Value)
		}
		rounds[p.Spec.NodeName] = p.Spec.Containers[0].Env[0].Value
	}
	return rounds, nil
}

func (e *env) awaitRounds(t *testing.T, ns string, want map[string]string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		got, err := e.rounds(ctx, ns)
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("pods %v, want %v", got, want)
		}
		return nil
	})
}

// TestDaemonSet: a DaemonSet on a real node rolls on and back (WL-2).
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	in := func(args ...string) string { return e.kubectl(t, append([]string{"-n", ns}, args...)...) }
	for round := 1; round <= 2; round++ {
		e.apply(t, ns, fmt.Sprintf(daemonSet, box, round))
		in("rollout", "status", "daemonset/d", "--timeout=110s")
	}
	contains(t, in("rollout", "history", "daemonset/d"), "1 ", "2 ")
	in("rollout", "undo", "daemonset/d")
	in("rollout", "status", "daemonset/d", "--timeout=110s")
	ds, err := e.client.AppsV1().DaemonSets(ns).Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := ds.Status; s.DesiredNumberScheduled != 1 || s.NumberAvailable != 1 || s.UpdatedNumberScheduled != 1 {
		t.Errorf("status %+v", s)
	}
	pods, err := e.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=d"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && (p.Spec.Containers[0].Env[0].Value != "1" || p.Labels["pod-template-generation"] != "3") {
			t.Errorf("pod %s has %v, labels %v", p.Name, p.Spec.Containers[0].Env, p.Labels)
		}
	}
	in("delete", "daemonset", "d", "--timeout=110s")
	eventually(t, func(ctx context.Context) error {
		got, err := e.rounds(ctx, ns)
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("pods %v are there", got)
		}
		return err
	})
}

// daemonsOnHollowNodes: a set follows its node selector, and rolls on and back.
func daemonsOnHollowNodes(t *testing.T, e *env) {
	ns := e.namespace(t)
	list, err := e.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%d nodes: %v", len(list.Items), err)
	}
	a, b := list.Items[0].Name, list.Items[1].Name
	e.apply(t, ns, strings.ReplaceAll(fmt.Sprintf(daemonSet, "hollow", 1), "args: [wait], ", ""))
	e.awaitRounds(t, ns, map[string]string{a: "1", b: "1"})
	e.kubectl(t, "-n", ns, "set", "env", "daemonset/d", "ROUND=2")
	e.awaitRounds(t, ns, map[string]string{a: "2", b: "2"})
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/d", "--timeout=110s")
	e.kubectl(t, "-n", ns, "rollout", "undo", "daemonset/d")
	e.awaitRounds(t, ns, map[string]string{a: "1", b: "1"})
	// Only the node with the label, then the other.
	for _, to := range []string{a, b} {
		e.kubectl(t, "-n", ns, "patch", "daemonset", "d", "-p", fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":%q}}}}}`, to))
		e.awaitRounds(t, ns, map[string]string{to: "1"})
	}
	eventually(t, func(ctx context.Context) error {
		n, err := e.client.CoreV1().Nodes().Get(ctx, a, metav1.GetOptions{})
		if err == nil && n.Annotations[corev1.ObjectTTLAnnotationKey] != "0" {
			err = fmt.Errorf("annotations %v", n.Annotations)
		}
		return err
	})
}

// cronJobsTick: one start by the clock in a zone that the sandbox has no file of,
// and one by hand.
func cronJobsTick(t *testing.T, e *env) {
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "* * * * *"
  timeZone: Asia/Kathmandu
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: hollow}]}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: never}
spec:
  schedule: "0 0 30 2 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: hollow}]}}}}
`)
	e.kubectl(t, "-n", ns, "create", "job", "--from=cronjob/never", "by-hand")
	event := func(reason, message string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			list, err := e.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
			if err != nil {
				return err
			}
			for _, ev := range list.Items {
				if strings.HasPrefix(ev.Message, message) {
					return nil
				}
			}
			return fmt.Errorf("no event %s %q", reason, message)
		})
	}
	event("UnexpectedJob", "Saw a job that the controller did not create or forgot: by-hand")
	event("InvalidSchedule", "invalid schedule: 0 0 30 2 * : ")
	event("SuccessfulCreate", "Created job tick-")
	eventually(t, func(ctx context.Context) error {
		cj, err := e.client.BatchV1().CronJobs(ns).Get(ctx, "tick", metav1.GetOptions{})
		if err == nil && cj.Status.LastScheduleTime == nil {
			err = fmt.Errorf("status %+v", cj.Status)
		}
		return err
	})
	jobs, err := e.client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		if at := j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]; strings.HasPrefix(j.Name, "tick-") && !strings.HasSuffix(at, ":00+05:45") {
			t.Errorf("job %s is of %q", j.Name, at)
		}
	}
}
