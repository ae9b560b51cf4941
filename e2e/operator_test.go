package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"pintle.dev/pintle/e2e/cluster"
)

const shopDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.harbour.example}
spec:
  group: harbour.example
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {shelves: {type: integer, default: 2, minimum: 0, maximum: 9}}}
          status: {type: object, properties: {filled: {type: integer}, by: {type: string}}}
`

// operatorPath is built once, from a module of its own.
var operatorPath = sync.OnceValues(func() (string, error) { return buildTool("operator", "e2e/operator", "") })

// operate runs the operator until the test ends it.
func (e *env) operate(t *testing.T, name string) (end func()) {
	t.Helper()
	program, err := operatorPath()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := e.Command(context.Background(), program, name)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := e.Network.Start(cmd); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("operator %s: %v\n%s", name, err, log.String())
		}
	})
	t.Cleanup(end)
	return end
}

// TestOperator: an ordinary operator works against the smallest kernel, and a
// second one takes over where it ended.
func TestOperator(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	if _, err := exec.LookPath("go"); err != nil {
		skip(t, "the operator is built by go")
	}
	e := launched(t, cluster.Options{Name: "operator", Config: "configs/minimal.yaml"})
	e.defineShops(t)
	shops := e.shops()
	shows := func(filled int64, by string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error { return filledBy(ctx, shops, filled, by) })
	}
	end := e.operate(t, "first")
	openShop(t, shops)
	shows(2, "first")
	e.operate(t, "second")
	e.patchShelves(t, shops, 5)
	shows(5, "first") // the leader
	end()
	e.patchShelves(t, shops, 3)
	shows(3, "second")
	contains(t, e.kubectl(t, "get", "events", "--field-selector=reason=Stocked"), "shop/corner", "goods updated by second")
	e.closeShop(t, shops)
}

// TestOperatorAsPlugin: the same operator is the process of a plugin. It works by
// the rules of its manifest and by nothing else: what they leave out it is
// forbidden, and its status says so.
func TestOperatorAsPlugin(t *testing.T) {
	t.Parallel()
	const rule = "  - apiGroups: [\"\"]\n    resources: [configmaps]\n    verbs: [get, list, watch, create, patch, delete]\n"
	t.Run("by its rules", func(t *testing.T) {
		e := operatorKernel(t, "operator-plugin", "")
		shops := e.shops()
		openShop(t, shops)
		eventually(t, func(ctx context.Context) error { return filledBy(ctx, shops, 2, "shops") })
		e.patchShelves(t, shops, 5)
		eventually(t, func(ctx context.Context) error { return filledBy(ctx, shops, 5, "shops") })
		eventually(t, func(context.Context) error {
			if out := e.kubectl(t, "get", "events", "--field-selector=reason=Stocked"); !strings.Contains(out, "goods updated by shops") {
				return fmt.Errorf("events:\n%s", out)
			}
			return nil
		})
		e.closeShop(t, shops)
		if out := e.kubectl(t, "get", "plugins", "shops", "-o", "jsonpath={.status.state} {.status.message}"); strings.TrimSpace(out) != "Ready" {
			t.Errorf("the plugin says %q", out)
		}
	})
	t.Run("without a rule", func(t *testing.T) {
		e := operatorKernel(t, "operator-refused", rule)
		openShop(t, e.shops())
		eventually(t, func(context.Context) error {
			out := e.kubectl(t, "get", "plugins", "shops", "-o", "jsonpath={.status.message}")
			if !strings.Contains(out, "was forbidden to ") || !strings.Contains(out, " configmaps, which its manifest does not ask for") {
				return fmt.Errorf("the plugin says %q", out)
			}
			return nil
		})
		contains(t, e.Log(1<<30), "configmaps is forbidden") // the API server's words, in what client-go logs
		if _, err := e.client.CoreV1().ConfigMaps("default").Get(t.Context(), "goods-corner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("it made goods that it may not make: %v", err)
		}
	})
}

// operatorKernel is a kernel that runs the operator as a plugin; of its manifest
// something is left out.
func operatorKernel(t *testing.T, name, without string) *env {
	t.Helper()
	binary(t, "pintle")
	if _, err := exec.LookPath("go"); err != nil {
		skip(t, "the operator is built by go")
	}
	program, err := operatorPath()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("operator/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manifest), without) {
		t.Fatalf("the manifest has no rule\n%s", without)
	}
	directory := t.TempDir()
	bundle := filepath.Join(directory, "shops")
	if err := os.Mkdir(bundle, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, filepath.Join(bundle, "shops")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(bundle, "manifest.yaml"), strings.Replace(string(manifest), without, "", 1))
	if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", bundle).CombinedOutput(); err != nil {
		t.Fatalf("seal: %v\n%s", err, text)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\napi: {bindAddress: 127.0.0.1}\n"+
		"plugins: {bundles: [{name: shops}]}\nscheduler: {profiles: []}\ncontrollers: {enabled: []}\n")
	e, err := launch(cluster.Options{Name: name, Config: config, Set: []string{"plugins.directories=[" + directory + "]"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("its log ends with:\n%s", e.Log(40))
		}
		if err := e.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	e.defineShops(t)
	// Not before: controller-runtime asks every ten seconds only whether there is
	// such a kind.
	if r, code := e.plugin(t, "enable", "shops"); code != 0 {
		t.Fatalf("enable: exit %d\n%s%s", code, r.stdout, r.stderr)
	}
	return e
}

func (e *env) defineShops(t *testing.T) {
	t.Helper()
	e.apply(t, "default", shopDefinition)
	e.established(t, "shops.harbour.example")
}

func (e *env) shops() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(e.cfg).Resource(schema.GroupVersionResource{Group: "harbour.example", Version: "v1", Resource: "shops"}).Namespace("default")
}

func openShop(t *testing.T, shops dynamic.ResourceInterface) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		_, err := shops.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "harbour.example/v1", "kind": "Shop", "metadata": map[string]any{"name": "corner"}, "spec": map[string]any{},
		}}, metav1.CreateOptions{})
		return err
	})
}

func filledBy(ctx context.Context, shops dynamic.ResourceInterface, filled int64, by string) error {
	shop, err := shops.Get(ctx, "corner", metav1.GetOptions{})
	if err != nil {
		return err
	}
	status, _, _ := unstructured.NestedMap(shop.Object, "status")
	if status["filled"] != filled || status["by"] != by {
		return fmt.Errorf("status %v, want %d by %s", status, filled, by)
	}
	return nil
}

// closeShop deletes the shop; the operator removes its goods and lets it go.
func (e *env) closeShop(t *testing.T, shops dynamic.ResourceInterface) {
	t.Helper()
	if err := shops.Delete(t.Context(), "corner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := shops.Get(ctx, "corner", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the shop is still there: %v", err)
		}
		if _, err := e.client.CoreV1().ConfigMaps("default").Get(ctx, "goods-corner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its goods are still there: %v", err)
		}
		return nil
	})
}

func (e *env) patchShelves(t *testing.T, shops dynamic.ResourceInterface, n int) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"shelves":%d}}`, n)
	if _, err := shops.Patch(t.Context(), "corner", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
