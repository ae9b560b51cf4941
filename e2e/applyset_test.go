package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// applySet has kubectl apply manifests as the members of an apply set, and prune it.
func (e *env) applySet(t *testing.T, ns, parent, manifests string, more ...string) result {
	t.Helper()
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"KUBECTL_APPLYSET=true", path, "apply", "-n", ns, "--server-side", "--applyset=" + parent, "--prune", "-f", "-"}, more...)
	return e.run(t, manifests, "env", args...)
}

// TestApplySets: kubectl prunes what an apply set has lost and nothing else, also of a
// large one, and keeps off parents and members of others.
func TestApplySets(t *testing.T) {
	t.Parallel()
	e := minimal(t, bareConfig(t), "")
	const ns, parent = "sets", "configmap/parent"
	e.kubectl(t, "create", "namespace", ns)
	in, _ := e.within(t, ns)
	member := func(name string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {a: b}}\n", name, ns)
	}
	members := func(n int) string {
		var all strings.Builder
		for i := range n {
			all.WriteString(member(fmt.Sprintf("m%d", i)))
		}
		return all.String()
	}
	counts := func(selector string, want int) {
		t.Helper()
		list, err := e.client.CoreV1().ConfigMaps(ns).List(bound(t), metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("%d ConfigMaps of %q, want %d: %v", len(list.Items), selector, want, err)
		}
	}
	applied := func(parent, manifests string) {
		t.Helper()
		if r := e.applySet(t, ns, parent, manifests); r.err != nil {
			t.Fatalf("apply set %s: %v\n%s%s", parent, r.err, r.stdout[max(0, len(r.stdout)-1000):], r.stderr)
		}
	}
	in("create", "configmap", "bystander")
	applied(parent, members(120)+"---\n{apiVersion: v1, kind: Secret, metadata: {name: m, namespace: "+ns+"}}\n")
	counts("applyset.kubernetes.io/part-of", 120)
	applied(parent, members(3))
	counts("applyset.kubernetes.io/part-of", 3)
	if out := in("get", "secrets"); strings.Contains(out, "m ") {
		t.Errorf("the secret of the set is there yet:\n%s", out)
	}
	contains(t, in("get", "configmaps"), "bystander", "parent", "m0", "m2")

	for name, meta := range map[string]string{
		"is missing required annotation": "{name: other}",
		`is managed by tooling "helm"`:   `{name: other, annotations: {applyset.kubernetes.io/tooling: helm/v3}}`,
		"does not have required label":   `{name: other, annotations: {applyset.kubernetes.io/tooling: kubectl/v1.36}}`,
		"has incorrect value for label":  `{name: other, annotations: {applyset.kubernetes.io/tooling: kubectl/v1.36}, labels: {applyset.kubernetes.io/id: applyset-stolen-v1}}`,
	} {
		e.apply(t, ns, "{apiVersion: v1, kind: ConfigMap, metadata: "+meta+"}")
		if r := e.applySet(t, ns, "configmap/other", member("theft")); r.err == nil || !strings.Contains(r.stderr, name) {
			t.Errorf("a parent that %s: %v\n%s%s", name, r.err, r.stdout, r.stderr)
		}
		in("delete", "configmap", "other")
	}
	if out := in("get", "configmaps"); strings.Contains(out, "theft") {
		t.Errorf("a member of a foreign parent was applied:\n%s", out)
	}

	// A member of one set does not become that of another manager's by the way.
	if r := e.applySet(t, ns, "configmap/second", member("m1"), "--field-manager=other"); r.err == nil || !strings.Contains(r.stderr, "conflict") {
		t.Errorf("a member of two sets: %v\n%s%s", r.err, r.stdout, r.stderr)
	}
	applied(parent, member("m0"))
	counts("applyset.kubernetes.io/part-of", 1)
	contains(t, in("get", "configmaps"), "bystander", "m0")
}
