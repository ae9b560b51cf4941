package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestJobs: Jobs with real containers. An index fails twice and then succeeds, a
// pod failure policy ends a Job, another is suspended and resumed, and one goes
// when its TTL is over (WL-2, 6.19, 18.17 to 18.20).
func TestJobs(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: ConfigMap
metadata: {name: lucky}
data: {"2": "the count of failures at which a pod succeeds"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: twice}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimitPerIndex: 3
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: lucky, configMap: {name: lucky}}]
      containers:
      - name: c
        image: `+box+`
        args: [exists, /lucky/$(FAILED)]
        env: [{name: FAILED, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"}}}]
        volumeMounts: [{name: lucky, mountPath: /lucky}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: policy}
spec:
  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: `+box+`, args: [exit, "42"]}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: rest}
spec:
  template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: c, image: `+box+`, args: [wait]}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: brief}
spec:
  ttlSecondsAfterFinished: 1
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: `+box+`, args: [exit, "0"]}]}}
`)
	in := func(args ...string) string { return e.kubectl(t, append([]string{"-n", ns}, args...)...) }
	in("create", "job", "simple", "--image="+box, "--", "/box", "echo", "done")
	in("wait", "--for=condition=complete", "job/simple", "--timeout=110s")
	contains(t, in("logs", "job/simple"), "done")
	contains(t, in("get", "job", "simple"), "Complete", "1/1")

	t.Run("pod failure policy", func(t *testing.T) {
		in("wait", "--for=condition=failed", "job/policy", "--timeout=110s")
		job, err := e.client.BatchV1().Jobs(ns).Get(t.Context(), "policy", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range job.Status.Conditions {
			if c.Reason != "PodFailurePolicy" || !strings.Contains(c.Message, "failed with exit code 42 matching FailJob rule at index 0") {
				t.Errorf("condition %+v", c)
			}
		}
		if job.Status.Failed != 1 {
			t.Errorf("status %+v", job.Status)
		}
	})
	t.Run("suspend and resume", func(t *testing.T) {
		ready := func(want int32) {
			t.Helper()
			eventually(t, func(ctx context.Context) error {
				job, err := e.client.BatchV1().Jobs(ns).Get(ctx, "rest", metav1.GetOptions{})
				if err != nil {
					return err
				}
				s := job.Status
				if s.Ready == nil || *s.Ready != want || (s.StartTime == nil) != (want == 0) || s.Failed != 0 {
					return fmt.Errorf("status %+v, want %d ready", s, want)
				}
				return nil
			})
		}
		ready(1)
		in("patch", "job", "rest", "-p", `{"spec":{"suspend":true}}`)
		in("wait", "--for=condition=suspended", "job/rest", "--timeout=110s")
		ready(0)
		in("patch", "job", "rest", "-p", `{"spec":{"suspend":false}}`)
		ready(1)
		in("delete", "job", "rest", "--timeout=110s")
	})
	t.Run("TTL", func(t *testing.T) {
		eventually(t, func(ctx context.Context) error {
			if _, err := e.client.BatchV1().Jobs(ns).Get(ctx, "brief", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Job is there: %v", err)
			}
			return nil
		})
	})
	t.Run("fails twice", func(t *testing.T) {
		in("wait", "--for=condition=complete", "job/twice", "--timeout=170s")
		job, err := e.client.BatchV1().Jobs(ns).Get(t.Context(), "twice", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if s := job.Status; s.CompletedIndexes != "0,1" || s.Succeeded != 2 || s.Failed != 4 || s.FailedIndexes == nil || *s.FailedIndexes != "" {
			t.Errorf("status %+v", s)
		}
		pods, err := e.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=twice"})
		if err != nil {
			t.Fatal(err)
		}
		ended := map[corev1.PodPhase]int{}
		for _, p := range pods.Items {
			ended[p.Status.Phase]++
			if len(p.Finalizers) > 0 {
				t.Errorf("pod %s has finalizers %v", p.Name, p.Finalizers)
			}
			if want := "twice-" + p.Annotations["batch.kubernetes.io/job-completion-index"]; p.Spec.Hostname != want {
				t.Errorf("host name %q, want %q", p.Spec.Hostname, want)
			}
		}
		if ended[corev1.PodSucceeded] != 2 || ended[corev1.PodFailed] != 4 {
			t.Errorf("pods %v", ended)
		}
	})
}
