package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// replicasCatalog has two bundles of e2e/testdata/plugins/replicas: a controller of
// ReplicaSets under a name of its own, and one under the name of the built-in one.
func replicasCatalog(t *testing.T, names ...string) string {
	t.Helper()
	program, err := buildTool("replicas", "./e2e/testdata/plugins/replicas", "")
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	for _, name := range names {
		dir := filepath.Join(catalog, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest(name, name, "controller")+`  rules:
  - {apiGroups: [apps], resources: [replicasets], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch, create, delete]}
`)
		seal(t, dir)
	}
	return catalog
}

// lives counts pods as they come and go. One that is marked has gone: a deletion that is
// cut off by the end of its client may leave it so, and the collector of pods takes it.
type lives struct {
	sync.Mutex
	made, gone int
}

// follow counts all pods of a namespace until the test ends.
func (l *lives) follow(t *testing.T, e *env, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(e.client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	count := func(made, gone int) {
		l.Lock()
		defer l.Unlock()
		l.made, l.gone = l.made+made, l.gone+gone
	}
	marked := func(o any) int {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if o.(*corev1.Pod).DeletionTimestamp != nil {
			return 1
		}
		return 0
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { count(1, marked(o)) },
		UpdateFunc: func(old, o any) { count(0, marked(o)-marked(old)) },
		DeleteFunc: func(o any) { count(0, 1-marked(o)) },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		t.Fatal("pods are not followed")
	}
}

// requests is how many requests of a verb for pods the API had.
func (e *env) requests(t *testing.T, verb string) (sum int) {
	t.Helper()
	for line := range strings.Lines(e.kubectl(t, "get", "--raw", "/metrics")) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="pods",scope=`) && strings.Contains(line, `subresource="",`) && strings.Contains(line, `verb="`+verb+`"`) {
			n, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += int(n)
		}
	}
	return sum
}

// TestReplacedController: a third party's plugin takes the place of the built-in
// controller of ReplicaSets and gives it back while sets are scaled, under a name of its
// own, and under the same name with its bundle in the place of the built-in one. No pod is
// made that was not wanted, none is left behind, and the writes are as many as the pods.
func TestReplacedController(t *testing.T) {
	t.Parallel()
	catalog := replicasCatalog(t, "acme-replicas", "replicaset")
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	configure := func(bundles, enabled string) {
		t.Helper()
		text := fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
plugins:
  directories: [%s, %s]
  bundles: [%s]
scheduler: {profiles: []}
controllers: {enabled: [%s]}
`, filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins"), catalog, bundles, enabled)
		if err := os.Rename(write(t, file+".new", text), file); err != nil {
			t.Fatal(err)
		}
	}
	// The successor is named first: it is not the order that keeps the two apart.
	const both, others = "{name: acme-replicas}, {name: controllers}", "serviceaccount, garbagecollector, podgc"
	builtIn := func() { configure(both, "replicaset, "+others) }
	builtIn()
	e := minimal(t, file, "")
	e.awaitAccount(t, "default")
	var seen lives
	seen.follow(t, e, "default")
	e.apply(t, "default", `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: none}]}
`)
	sets := e.client.AppsV1().ReplicaSets("default")
	made, gone, now := 0, 0, 0
	scale := func(ctx context.Context, by int) error {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, now+by)
		if _, err := sets.Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
		now, made, gone = now+by, made+max(0, by), gone+max(0, -by)
		return nil
	}
	for _, step := range []struct {
		name           string
		by             int // while the change comes into force, again and again
		change         func()
		bundle, plugin string
	}{
		{"grows under the built-in one", 10, builtIn, "controllers", "replicaset"},
		{"grows as another takes over", 10, func() { configure(both, "acme-replicas, "+others) }, "acme-replicas", "acme-replicas"},
		{"shrinks as it gives back", -10, builtIn, "controllers", "replicaset"},
		{"grows as a bundle takes the name", 10, func() { configure("{name: replicaset}", "replicaset") }, "replicaset", "replicaset"},
		{"grows as it gives the name back", 10, builtIn, "controllers", "replicaset"},
	} {
		step.change()
		changes := 0
		eventually(t, func(ctx context.Context) error {
			// 100 times, then it waits: the change may take long.
			if changes++; changes <= 100 && now+step.by >= 0 {
				if err := scale(ctx, step.by); err != nil {
					return err
				}
			}
			r := e.try(t, "get", "plugin", step.plugin, "-o", "jsonpath={.spec.bundle} {.status.state}")
			if r.stdout != step.bundle+" Ready" {
				return fmt.Errorf("plugin %s: %q, want %s Ready: %s", step.plugin, r.stdout, step.bundle, r.stderr)
			}
			return nil
		})
		for _, by := range []int{0, 50} { // the successor works too
			if err := scale(bound(t), by); err != nil {
				t.Fatal(err)
			}
			eventually(t, func(context.Context) error {
				seen.Lock()
				defer seen.Unlock()
				if seen.made-seen.gone != now || seen.made < made {
					return fmt.Errorf("%s: %d pods were made and %d went, want %d and %d", step.name, seen.made, seen.gone, made, gone)
				}
				return nil
			})
		}
	}
	// A write that is cut off by the change may be asked for again, and the API may have
	// done both.
	const cut = 20
	seen.Lock()
	if seen.made > made+cut || seen.made-made != seen.gone-gone {
		t.Errorf("%d pods were made and %d went, want %d and %d", seen.made, seen.gone, made, gone)
	}
	t.Logf("%d pods were made and %d went, of %d and %d", seen.made, seen.gone, made, gone)
	seen.Unlock()
	if n := e.requests(t, "POST"); n < made || n > made+cut {
		t.Errorf("%d creations were asked for, want %d", n, made)
	}
	if n := e.requests(t, "DELETE"); n < gone || n > gone+cut {
		t.Errorf("%d deletions were asked for, want %d", n, gone)
	}
	e.kubectl(t, "delete", "replicaset", "web")
	eventually(t, func(ctx context.Context) error {
		pods, err := e.client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are left: %w", len(pods.Items), err)
		}
		return nil
	})
	e.stop(t)
}
