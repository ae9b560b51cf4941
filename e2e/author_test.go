package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/sdk/templates"
	"pintle.dev/pintle/sdk/toolchain"
)

// TestAuthorLanguages is a stranger's way through each language: pintle plugin
// init, build and test (the cases and the conformance suite against what was
// built), and a kernel that places pods by it. JavaScript is a process over gRPC
// from the .proto files alone; the others are modules, and Go is both.
func TestAuthorLanguages(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	for _, language := range templates.Languages() {
		t.Run(language, func(t *testing.T) {
			if err := toolchain.Ready(t.Context(), language); err != nil {
				skip(t, err.Error())
			}
			dir := t.TempDir()
			author(t, dir, "plugin", "init", "predicate", "tiers", "--lang", language)
			author(t, dir, "plugin", "init", "priority", "taste", "--lang", language)
			for _, name := range []string{"tiers", "taste"} {
				out := author(t, dir, "plugin", "test", name, "--seeds", "5")
				contains(t, out, "case a pod of a tier", "deltas and a fresh replica agree")
			}
			placesByTiers(t, language, dir)
		})
	}
}

// author runs pintle in dir as a stranger would: outside of the checkout.
func author(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), documentPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, "pintle"), args...)
	cmd.Dir = dir
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &faults
	if err := cmd.Run(); err != nil {
		t.Fatalf("pintle %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), faults.String())
	}
	return out.String()
}

// placesByTiers runs a kernel with the two bundles in dir.
func placesByTiers(t *testing.T, name, dir string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(tiersConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	e := launched(t, cluster.Options{
		Name: "author-" + name, Config: config,
		Set: []string{"plugins.directories=[" + dir + ", " + filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins") + "]"},
	})
	e.apply(t, "default", tiersObjects)
	e.awaitTiers(t)
	e.awaitPod(t, "default", "chosen", onNode("gold"))
	plugins := e.kubectl(t, "get", "plugins", "Tiers", "Taste")
	if strings.Count(plugins, "Ready") != 2 {
		t.Errorf("plugins:\n%s", plugins)
	}
}

// awaitTiers waits until pods of tiersObjects are where the predicate wants them.
func (e *env) awaitTiers(t *testing.T) {
	t.Helper()
	e.awaitPod(t, "default", "golden", onNode("gold"))
	e.awaitPod(t, "default", "wooden", func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if strings.Contains(c.Message, "2 node(s) were of another tier") {
				return nil
			}
		}
		return fmt.Errorf("conditions of pod wooden: %v", p.Status.Conditions)
	})
}

// onNode is a condition for awaitPod.
func onNode(name string) func(p *corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if p.Spec.NodeName != name {
			return fmt.Errorf("pod %s is on %q, want %s: %v", p.Name, p.Spec.NodeName, name, p.Status.Conditions)
		}
		return nil
	}
}

const tiersConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api:
  bindAddress: 127.0.0.1
plugins:
  bundles:
  - name: classic
  - name: tiers
  - name: taste
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [Tiers, PodFitsResources]
    priorities: [{name: Taste}]
  - schedulerName: taste-alone
    predicates: [PodFitsResources]
    priorities: [{name: Taste}]
`

// tiersObjects are two nodes and three pods: one that a predicate puts on gold,
// one that a priority puts there, and one that fits nowhere.
const tiersObjects = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: default}
---
apiVersion: v1
kind: Node
metadata: {name: silver, labels: {example.com/tier: silver}}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
---
apiVersion: v1
kind: Node
metadata: {name: gold, labels: {example.com/tier: gold}}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
---
apiVersion: v1
kind: Pod
metadata: {name: golden, labels: {example.com/tier: gold}}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: none}]
---
apiVersion: v1
kind: Pod
metadata: {name: chosen, labels: {example.com/tier: gold}}
spec:
  schedulerName: taste-alone
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: none}]
---
apiVersion: v1
kind: Pod
metadata: {name: wooden, labels: {example.com/tier: wood}}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: none}]
`

// TestAuthorGreeter: a controller of 30 lines, as a module and as a process,
// works in a kernel.
func TestAuthorGreeter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "controller", "greeter")
	author(t, dir, "plugin", "test", "greeter")
	for _, transport := range []string{toolchain.WASM, toolchain.Process} {
		t.Run(transport, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.yaml")
			text := "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\napi: {bindAddress: 127.0.0.1}\n" +
				"plugins:\n  bundles:\n  - name: greeter\n    transport: " + transport + "\nscheduler: {profiles: []}\ncontrollers: {enabled: [greeter]}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e := launched(t, cluster.Options{Name: "greeter-" + transport, Config: config, Set: []string{"plugins.directories=[" + dir + "]"}})
			e.greeted(t)
		})
	}
}

// greeted waits for what the controller of the guide writes into a namespace.
func (e *env) greeted(t *testing.T) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		greeting, err := e.client.CoreV1().ConfigMaps("default").Get(ctx, "greeting", metav1.GetOptions{})
		if err == nil && greeting.Data["text"] != "hello, default" {
			err = fmt.Errorf("greeting %v", greeting.Data)
		}
		return err
	})
}

// TestAuthorObjects is a stranger's way to a controller and an admission plugin in
// each language that has templates of them and is built as a module only: init,
// test (cases and suite), and a kernel in which one greets and the other refuses.
func TestAuthorObjects(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	for _, language := range []string{toolchain.C, toolchain.AssemblyScript, toolchain.Rust} {
		t.Run(language, func(t *testing.T) {
			if err := toolchain.Ready(t.Context(), language); err != nil {
				skip(t, err.Error())
			}
			dir := t.TempDir()
			author(t, dir, "plugin", "init", "controller", "greeter", "--lang", language)
			author(t, dir, "plugin", "init", "admission", "team", "--lang", language)
			contains(t, author(t, dir, "plugin", "test", "greeter"), "reconciliations")
			contains(t, author(t, dir, "plugin", "test", "team"), "case a pod of no team", "reviews")
			config := filepath.Join(t.TempDir(), "config.yaml")
			text := "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\napi: {bindAddress: 127.0.0.1}\n" +
				"plugins: {bundles: [{name: greeter}, {name: team}]}\nscheduler: {profiles: []}\ncontrollers: {enabled: [greeter]}\nadmission: {enabled: [team]}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e := launched(t, cluster.Options{Name: "objects-" + language, Config: config, Set: []string{"plugins.directories=[" + dir + "]"}})
			e.greeted(t)
			e.apply(t, "default", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n")
			for name, labels := range map[string]map[string]string{"blue": {"team": "blue"}, "loose": nil} {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}},
				}}
				_, err := e.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
				refused := err != nil && strings.Contains(err.Error(), `admission plugin "team" denied the request: pods say which team they belong to`)
				if refused != (labels == nil) || err != nil && !refused {
					t.Errorf("pod %s: %v", name, err)
				}
			}
		})
	}
}

// TestAuthorTemplates: the tests that every template in Go comes with pass on
// its source.
func TestAuthorTemplates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	work := "go 1.26.0\n\nuse (\n\t" + repo + "\n"
	for _, kind := range templates.Kinds("go") {
		files, err := templates.Render("go", kind, templates.Values{Name: "my-" + kind, SDK: repo, Go: "1.26.0"})
		if err != nil {
			t.Fatal(err)
		}
		work += "\t./" + kind + "\n"
		for name, data := range files {
			path := filepath.Join(dir, kind, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(dir, kind, "go.work")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work+")\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range templates.Kinds("go") {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), documentPatience)
			defer cancel()
			cmd := exec.CommandContext(ctx, "go", "test", "-short", ".")
			cmd.Dir, cmd.Env = filepath.Join(dir, kind), append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
