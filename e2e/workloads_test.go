package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// bareConfig is the smallest configuration with controllers that keep no pods.
func bareConfig(t *testing.T) string {
	t.Helper()
	base, err := os.ReadFile("../configs/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(base), "  - name: classic\n", "  - name: classic\n  - name: controllers\n", 1) +
		"controllers:\n  enabled: [namespace, garbagecollector, resourcequota, serviceaccount]\n"
	file := filepath.Join(t.TempDir(), "bare.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// within has kubectl run in a namespace. in returns what it prints; refused expects
// words of an error.
func (e *env) within(t *testing.T, ns string) (in func(args ...string) string, refused func(words string, args ...string)) {
	in = func(args ...string) string { t.Helper(); return e.kubectl(t, append([]string{"-n", ns}, args...)...) }
	refused = func(words string, args ...string) {
		t.Helper()
		if r := e.try(t, append([]string{"-n", ns}, args...)...); r.err == nil || !strings.Contains(r.stdout+r.stderr, words) {
			t.Errorf("kubectl %s: %v\n%s%s\nwant %q", strings.Join(args, " "), r.err, r.stdout, r.stderr, words)
		}
	}
	return in, refused
}

// TestWorkloadKinds: kubectl makes, shows, changes and deletes the kinds of
// workloads, whether a controller keeps them or not.
func TestWorkloadKinds(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	e := launched(t, cluster.Options{Name: "workloads", Config: bareConfig(t)})
	ns := e.namespace(t)
	in, refused := e.within(t, ns)
	e.apply(t, ns, `
apiVersion: v1
kind: PodTemplate
metadata: {name: t}
template: {metadata: {labels: {app: t}}, spec: {containers: [{name: c, image: "box:1"}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d}
spec: {selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, spec: {containers: [{name: c, image: "box:1"}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  serviceName: s
  selector: {matchLabels: {app: s}}
  template: {metadata: {labels: {app: s}}, spec: {containers: [{name: c, image: "box:1"}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`)

	t.Run("jobs", func(t *testing.T) {
		contains(t, in("create", "job", "j", "--image=box:1", "--", "true"), "job.batch/j created")
		contains(t, in("create", "cronjob", "c", "--image=box:1", "--schedule=*/1 * * * *", "--restart=OnFailure"), "cronjob.batch/c created")
		contains(t, in("create", "job", "now", "--from=cronjob/c"), "job.batch/now created")
		if owner := in("get", "job", "now", "-o", "jsonpath={.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}"); owner != "CronJob/c" {
			t.Errorf("the job of the cron job is %q's", owner)
		}
		contains(t, in("get", "jobs"), "NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE", "Running", "0/1")
		contains(t, in("get", "cj", "-o", "wide"), "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "*/1 * * * *", "<none>", "False", "box:1")
		contains(t, in("describe", "job", "j"), "Completion Mode:", "NonIndexed", "batch.kubernetes.io/controller-uid=")
		contains(t, in("describe", "cronjob", "c"), "Schedule:", "Concurrency Policy:", "Allow")
		in("patch", "cronjob", "c", "-p", `{"spec":{"suspend":true}}`)
		contains(t, in("get", "cronjobs"), "True")
		contains(t, in("set", "image", "cronjob/c", "c=box:2"), "cronjob.batch/c image updated")
		refused("field is immutable", "set", "image", "job/j", "j=box:2")
		refused("expected exactly 5 fields", "create", "cronjob", "bad", "--image=box:1", "--schedule=often")
	})
	t.Run("images", func(t *testing.T) {
		for _, set := range []string{"daemonset.apps/d", "statefulset.apps/s"} {
			contains(t, in("set", "image", set, "c=box:2"), set+" image updated")
			contains(t, in("rollout", "restart", set), set+" restarted")
			if n := in("get", set, "-o", "jsonpath={.metadata.generation}"); n != "3" {
				t.Errorf("generation of %s is %s", set, n)
			}
		}
		if n := in("get", "ds", "d", "-o", `jsonpath={.metadata.annotations.deprecated\.daemonset\.template\.generation}`); n != "3" {
			t.Errorf("%s changes of the template are counted", n)
		}
	})
	t.Run("rollout", func(t *testing.T) {
		refused("Waiting for daemon set spec update to be observed...", "rollout", "status", "daemonset/d", "--timeout=2s")
		refused("Waiting for statefulset spec update to be observed...", "rollout", "status", "statefulset/s", "--timeout=2s")
		in("patch", "statefulset", "s", "-p", `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
		refused(`rollout status is only available for RollingUpdate strategy type`, "rollout", "status", "statefulset/s")
		// A revision as a controller writes it is what kubectl shows and goes back to.
		e.apply(t, ns, `
apiVersion: apps/v1
kind: ControllerRevision
metadata:
  name: d-1
  labels: {app: d}
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, controller: true, uid: `+in("get", "ds", "d", "-o", "jsonpath={.metadata.uid}")+`}]
revision: 1
data: {spec: {template: {$patch: replace, metadata: {labels: {app: d}}, spec: {containers: [{name: c, image: "box:7"}]}}}}
`)
		contains(t, in("rollout", "history", "daemonset/d"), "daemonset.apps/d", "REVISION", "1")
		contains(t, in("rollout", "undo", "daemonset/d", "--to-revision=1"), "daemonset.apps/d rolled back")
		contains(t, in("get", "ds", "-o", "wide"), "box:7")
	})
	t.Run("scale", func(t *testing.T) {
		contains(t, in("scale", "statefulset", "s", "--replicas=3"), "statefulset.apps/s scaled")
		contains(t, in("get", "sts"), "READY", "0/3")
		contains(t, in("get", "sts", "s", "--subresource=scale"), "DESIRED", "3")
		refused("the server could not find the requested resource", "scale", "daemonset", "d", "--replicas=3")
		refused("updates to statefulset spec for fields other than", "patch", "sts", "s", "-p", `{"spec":{"serviceName":"other"}}`)
	})
	t.Run("shown", func(t *testing.T) {
		contains(t, in("get", "all"), "daemonset.apps/d", "statefulset.apps/s", "job.batch/j", "cronjob.batch/c")
		contains(t, in("get", "ds"), "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE SELECTOR", "AGE")
		contains(t, in("get", "podtemplates"), "CONTAINERS", "IMAGES", "POD LABELS", "app=t")
		contains(t, in("describe", "sts", "s"), "Volume Claims:", "Capacity:", "1Gi")
		contains(t, in("describe", "ds", "d"), "Desired Number of Nodes Scheduled: 0")
		for path, word := range map[string]string{
			"daemonset.spec.updateStrategy": "rollingUpdate", "statefulset.spec.ordinals": "start", "job.spec.successPolicy.rules": "succeededIndexes",
			"cronjob.spec.jobTemplate.spec": "backoffLimitPerIndex", "podtemplates.template": "spec",
		} {
			contains(t, in("explain", path), word)
		}
	})
	t.Run("server side apply", func(t *testing.T) {
		text := `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"replicas":2}}`
		file := filepath.Join(t.TempDir(), "s.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(`conflict with "kubectl" with subresource "scale"`, "apply", "--server-side", "--field-manager=other", "-f", file)
		contains(t, in("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", file), "serverside-applied")
		contains(t, in("get", "sts"), "0/2")
	})
	t.Run("quota", func(t *testing.T) {
		in("create", "quota", "q", "--hard=count/jobs.batch=3,count/statefulsets.apps=1,count/podtemplates=5")
		eventually(t, func(ctx context.Context) error {
			q, err := e.client.CoreV1().ResourceQuotas(ns).Get(ctx, "q", metav1.GetOptions{})
			if err == nil && q.Status.Used.Name("count/jobs.batch", "").String() != "2" {
				err = fmt.Errorf("used: %v", q.Status.Used)
			}
			return err
		})
		in("create", "job", "third", "--image=box:1")
		refused("exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=3, limited: count/jobs.batch=3", "create", "job", "fourth", "--image=box:1")
	})
	t.Run("rights", func(t *testing.T) {
		in("create", "rolebinding", "viewer", "--clusterrole=view", "--user=viewer")
		in("create", "rolebinding", "editor", "--clusterrole=edit", "--user=editor")
		for _, kind := range []string{"jobs.batch", "cronjobs.batch", "daemonsets.apps", "statefulsets.apps"} {
			for user, may := range map[string]string{"viewer": "no", "editor": "yes"} {
				if out := e.try(t, "-n", ns, "auth", "can-i", "create", kind, "--as="+user); strings.TrimSpace(out.stdout) != may {
					t.Errorf("%s may create %s: %s", user, kind, out.stdout)
				}
				contains(t, in("get", kind, "--as="+user), "NAME")
			}
		}
	})
	t.Run("end", func(t *testing.T) {
		in("delete", "cronjob", "c")
		eventually(t, func(ctx context.Context) error {
			_, err := e.client.BatchV1().Jobs(ns).Get(ctx, "now", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("the job of the cron job that is gone: %v", err)
		})
		e.kubectl(t, "delete", "namespace", ns, "--timeout=100s")
		if list, err := e.client.CoreV1().PodTemplates(corev1.NamespaceAll).List(bound(t), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("left of the namespace: %v, %v", list, err)
		}
	})
}
