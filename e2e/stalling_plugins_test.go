package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// stallingCatalog has two bundles of e2e/testdata/plugins/stalls: one with its
// queue-sort plugin, one with the others.
func stallingCatalog(t *testing.T, transport string) string {
	t.Helper()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	for bundle, plugins := range map[string]string{"sorts": `
- {name: StallsSorting, kind: queue-sort}
`, "stalls": `
- {name: StallsEntering, kind: pre-enqueue}
- {name: StallsNarrowing, kind: pre-filter}
- {name: Stalls, kind: predicate}
- {name: StallsNominating, kind: post-filter}
- {name: StallsLooking, kind: pre-score}
- {name: StallsReserving, kind: reserve}
- {name: StallsPermitting, kind: permit}
- {name: StallsBinding, kind: pre-bind}
`} {
		dir := filepath.Join(catalog, bundle)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file, args, env := bundle, []string{"build", "-ldflags=-s -w"}, append(os.Environ(), "CGO_ENABLED=0")
		if transport == "wasm" {
			file, args, env = bundle+".wasm", append(args, "-buildmode=c-shared"), append(env, "GOOS=wasip1", "GOARCH=wasm")
		}
		build := exec.Command("go", append(args, "-o", filepath.Join(dir, file), "./e2e/testdata/plugins/stalls")...)
		build.Dir, build.Env = repo, env
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", file, err, text)
		}
		write(t, filepath.Join(dir, "manifest.yaml"), fmt.Sprintf("apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: %s\nversion: 0.1.0\nplugins:%s", bundle, plugins))
		if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
			t.Fatalf("seal %s: %v\n%s", bundle, err, text)
		}
	}
	return catalog
}

// askStalling creates a pod whose plugins do not answer at a point.
func (e *env) askStalling(t *testing.T, point string) {
	t.Helper()
	_, err := e.client.CoreV1().Pods("default").Create(bound(t), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stalls", Labels: map[string]string{"stall": point}},
		Spec: corev1.PodSpec{
			SchedulerName: "stalls", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// gone removes a pod at once.
func (e *env) gone(t *testing.T, name string) {
	t.Helper()
	if err := e.client.CoreV1().Pods("default").Delete(bound(t), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
}

// TestStallsHoldUpTheirProfileAlone: at whichever point of the cycle a plugin of a
// profile loops or sleeps, and while it takes a configuration, pods of another profile
// are bound before its time is over. How long those waited is logged. The profile itself
// goes on when its plugin was started again.
func TestStallsHoldUpTheirProfileAlone(t *testing.T) {
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	// Two kernels, as a bundle that breaks often is started again later and later.
	halves := map[string][]string{
		"entering":  {"preEnqueue", "queueSort", "preFilter", "filter", "preScore", "queueingHint"},
		"placement": {"postFilter", "reserve", "unreserve", "permit", "permitReview", "preBind"},
	}
	for _, name := range []string{"wasm/entering", "wasm/placement", "process/entering", "process/placement"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport, half, _ := strings.Cut(name, "/")
			catalog := stallingCatalog(t, transport)
			const callTimeout = 6 * time.Second
			file := write(t, filepath.Join(t.TempDir(), "pintle.yaml"), fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  callTimeout: %s
  bundles: [{name: classic}, {name: stalls}, {name: sorts}]
scheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 200ms
  profiles:
  - {schedulerName: default-scheduler, predicates: [HostName, PodFitsResources], queueSort: StallsSorting}
  - schedulerName: stalls
    queueSort: StallsSorting
    preEnqueue: [StallsEntering]
    preFilter: [StallsNarrowing]
    predicates: [HostName, Stalls]
    postFilter: [StallsNominating]
    preScore: [StallsLooking]
    reserve: [StallsReserving]
    permit: [StallsPermitting]
    preBind: [StallsBinding]
`, own, catalog, callTimeout))
			e := minimal(t, file, filepath.Join(t.TempDir(), "data"))
			e.placer(t)
			sound := 0
			// goesOn has pods of the other profile bound one after the other, for a while.
			goesOn := func(point string) {
				t.Helper()
				var longest time.Duration
				for began := time.Now(); time.Since(began) < time.Second; sound++ {
					name, asked := fmt.Sprint("sound-", sound), time.Now()
					e.ask(t, name, "default-scheduler")
					e.placed(t, name)
					longest = max(longest, time.Since(asked))
					e.gone(t, name)
				}
				t.Logf("%s: pods of the other profile waited %s at most", point, longest)
				if longest >= callTimeout {
					t.Errorf("%s: a pod of the other profile waited %s, while the plugin had %s to answer", point, longest, callTimeout)
				}
			}
			recovers := func(point string) {
				t.Helper()
				name := fmt.Sprint("behind-", sound)
				e.ask(t, name, "stalls")
				e.placed(t, name)
				e.gone(t, name)
			}
			recovers("start")
			for _, point := range halves[half] {
				e.askStalling(t, point)
				if point == "queueingHint" {
					e.refused(t, "stalls", "it is to fit nowhere")
					if _, err := e.client.CoreV1().Nodes().Patch(bound(t), "n0", types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"label"}}}`), metav1.PatchOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				goesOn(point)
				p, err := e.client.CoreV1().Pods("default").Get(bound(t), "stalls", metav1.GetOptions{})
				if err != nil || p.Spec.NodeName != "" && point != "queueSort" {
					t.Errorf("%s: the pod is on %q past a plugin that stalls, %v", point, p.Spec.NodeName, err)
				}
				e.gone(t, "stalls")
				recovers(point)
			}
			// A copy takes the configuration, which the plugin that runs does not.
			refused := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			go func() {
				path := "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/plugins/Stalls"
				refused <- e.client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Body([]byte(`{"spec":{"config":{"stall":true}}}`)).Do(ctx).Error()
			}()
			goesOn("configuration")
			<-refused
		})
	}
}
