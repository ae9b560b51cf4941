package e2e

import (
	"context"
	"fmt"
	"os/exec"
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
	e, err := launch(cluster.Options{Name: "operator", Config: "configs/minimal.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	e.apply(t, "default", shopDefinition)
	e.kubectl(t, "wait", "--for=condition=Established", "crd/shops.harbour.example", "--timeout=60s")
	shops := dynamic.NewForConfigOrDie(e.cfg).Resource(schema.GroupVersionResource{Group: "harbour.example", Version: "v1", Resource: "shops"}).Namespace("default")
	shows := func(filled int64, by string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			shop, err := shops.Get(ctx, "corner", metav1.GetOptions{})
			if err != nil {
				return err
			}
			status, _, _ := unstructured.NestedMap(shop.Object, "status")
			if status["filled"] != filled || status["by"] != by {
				return fmt.Errorf("status %v, want %d by %s", status, filled, by)
			}
			return nil
		})
	}
	end := e.operate(t, "first")
	eventually(t, func(ctx context.Context) error {
		_, err := shops.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "harbour.example/v1", "kind": "Shop", "metadata": map[string]any{"name": "corner"}, "spec": map[string]any{},
		}}, metav1.CreateOptions{})
		return err
	})
	shows(2, "first")
	e.operate(t, "second")
	e.patchShelves(t, shops, 5)
	shows(5, "first") // the leader
	end()
	e.patchShelves(t, shops, 3)
	shows(3, "second")
	contains(t, e.kubectl(t, "get", "events", "--field-selector=reason=Stocked"), "shop/corner", "goods updated by second")
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
