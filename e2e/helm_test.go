package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// helmPath is a Helm that knows nothing of Pintle, built once from a module of its own.
var helmPath = sync.OnceValues(func() (string, error) {
	return buildPackage("helm", "e2e/helm", "helm.sh/helm/v3/cmd/helm", "")
})

// helm is Helm with folders of its own, against a cluster.
type helm struct {
	e             *env
	program, home string
}

func newHelm(t *testing.T, e *env) *helm {
	t.Helper()
	program, err := helmPath()
	if err != nil {
		t.Fatal(err)
	}
	return &helm{e, program, t.TempDir()}
}

func (h *helm) try(t testing.TB, args ...string) result {
	t.Helper()
	folder := func(name string) string { return filepath.Join(h.home, name) }
	return h.e.run(t, "", "env", append([]string{
		"HELM_CACHE_HOME=" + folder("cache"), "HELM_CONFIG_HOME=" + folder("config"), "HELM_DATA_HOME=" + folder("data"), h.program,
	}, args...)...)
}

// do runs Helm, which has to succeed, and returns its output.
func (h *helm) do(t testing.TB, args ...string) string {
	t.Helper()
	r := h.try(t, args...)
	if r.err != nil {
		t.Fatalf("helm %s: %v\n%s%s\n%s", strings.Join(args, " "), r.err, r.stdout, r.stderr, h.e.kubectl(t, "get", "events,pods", "-A"))
	}
	return r.stdout
}

// refused runs Helm, which has to fail with these words.
func (h *helm) refused(t testing.TB, args []string, words ...string) {
	t.Helper()
	r := h.try(t, args...)
	if r.err == nil {
		t.Errorf("helm %s is done:\n%s", strings.Join(args, " "), r.stdout)
	}
	contains(t, r.stderr, words...)
}

// TestHelm: Helm installs, upgrades, tests, takes back and removes a chart with
// definitions, hooks and values that it looks up, as with any cluster, and says of
// kinds that are not served what is missing.
func TestHelm(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		skip(t, "Helm is built by go")
	}
	e := hollow(t, "helm", "", 2)
	h := newHelm(t, e)
	home, chart := h.home, e.Path("e2e", "helm", "shop")
	helm := func(args ...string) string { t.Helper(); return h.do(t, args...) }
	refused := func(args []string, words ...string) { t.Helper(); h.refused(t, args, words...) }
	// value is what an object of the release has at a place.
	value := func(kind, place string) string {
		t.Helper()
		return e.kubectl(t, "get", kind, "corner", "-o", "jsonpath={"+place+"}")
	}

	contains(t, helm("install", "corner", chart, "--wait", "--timeout=60s"), "STATUS: deployed", "The shop corner says hello.")
	if got := value("deployment", ".status.readyReplicas"); got != "2" {
		t.Errorf("ready when --wait returned: %q, want 2", got)
	}
	if served := value("configmap", ".data.deployments") + " " + value("configmap", ".data.jobs"); served != "true true" {
		t.Errorf("the chart was told that Deployment and Job are served: %s", served)
	}
	if got := e.kubectl(t, "get", "pod", "corner-pre-install", "-o", "jsonpath={.status.phase}"); got != "Succeeded" {
		t.Errorf("the hook's pod is %s", got)
	}
	key := value("secret", ".data.key")

	contains(t, helm("upgrade", "corner", chart, "--dry-run=server", "--set=greeting=dry"), "greeting: \"dry\"", "key: "+key)
	helm("upgrade", "corner", chart, "--wait", "--timeout=60s", "--set=greeting=welcome,replicas=3")
	if got := value("configmap", ".data.greeting") + " " + value("deployment", ".status.updatedReplicas") + " " + value("widget", ".spec.size"); got != "welcome 3 3" {
		t.Errorf("after the upgrade: %s", got)
	}
	if got := value("secret", ".data.key"); got != key {
		t.Errorf("the secret was looked up as nothing: %s, was %s", got, key)
	}
	contains(t, helm("test", "corner"), "TEST SUITE:     corner-open", "Phase:          Succeeded")

	t.Log("upgrades that fail")
	refused([]string{"upgrade", "corner", chart, "--reuse-values", "--set=replicas=10"}, "spec.size", "should be less than or equal to 9")
	refused([]string{"upgrade", "corner", chart, "--reuse-values", "--set=replicas=3,zone=nowhere", "--atomic", "--timeout=4s"}, "has been rolled back due to atomic being set")
	if got := value("deployment", ".spec.template.spec.nodeSelector") + value("widget", ".spec.size"); got != "3" {
		t.Errorf("after the upgrade that was taken back: %s", got)
	}
	contains(t, helm("history", "corner"), "Install complete", "Upgrade complete", "Rollback to ")
	helm("rollback", "corner", "1", "--wait", "--timeout=60s")
	if got := value("configmap", ".data.greeting") + " " + value("deployment", ".spec.replicas"); got != "hello 2" {
		t.Errorf("after the rollback: %s", got)
	}
	helm("upgrade", "corner", chart, "--set=testExit=3")
	refused([]string{"test", "corner"}, "pod corner-open failed")

	t.Log("a release in a namespace that it makes, and its end")
	helm("upgrade", "--install", "market", chart, "--namespace=town", "--create-namespace", "--atomic", "--timeout=60s")
	contains(t, helm("list", "-A"), "corner", "market", "town", "shop-0.1.0")
	helm("uninstall", "market", "--namespace=town", "--wait", "--timeout=60s")
	helm("uninstall", "corner", "--wait", "--timeout=60s")
	left := e.kubectl(t, "get", "deployments,replicasets,configmaps,secrets,serviceaccounts,roles,rolebindings,services,poddisruptionbudgets,widgets", "-A", "-o", "name")
	for _, name := range []string{"/corner", "/market"} {
		if strings.Contains(left, name) {
			t.Errorf("left after uninstall:\n%s", left)
		}
	}

	// Helm's own idea of a chart, with kinds that nothing acts on yet.
	other := filepath.Join(home, "other")
	helm("create", other)
	contains(t, helm("install", "other", other, "--set=autoscaling.enabled=true,ingress.enabled=true"), "STATUS: deployed")
	kinds := e.kubectl(t, "get", "horizontalpodautoscalers,ingresses", "-o", "name")
	contains(t, kinds, "horizontalpodautoscaler.autoscaling/other", "ingress.networking.k8s.io/other")
	helm("uninstall", "other", "--wait", "--timeout=60s")
	if left := e.kubectl(t, "get", "horizontalpodautoscalers,ingresses", "-o", "name"); left != "" {
		t.Errorf("left after uninstall:\n%s", left)
	}
}
