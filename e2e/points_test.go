package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// cycleBundle is a bundle with a plugin at every point of the scheduling cycle,
// built for both transports and sealed, once.
var cycleBundle = sync.OnceValues(func() (string, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	catalog := filepath.Join(repo, "bin", "e2e", "points")
	dir := filepath.Join(catalog, "cycle")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	const source = "./kernel/plugin/testdata/cycle"
	for out, env := range map[string][]string{"cycle.wasm": {"GOOS=wasip1", "GOARCH=wasm"}, "cycle": nil} {
		args := []string{"build", "-ldflags=-s -w", "-o", filepath.Join(dir, out)}
		if env != nil {
			args = append(args, "-buildmode=c-shared")
		}
		build := exec.Command("go", append(args, source)...)
		build.Dir, build.Env = repo, append(append(os.Environ(), "CGO_ENABLED=0"), env...)
		if text, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", out, err, text)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(repo, source, "manifest.yaml"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), manifest, 0o644); err != nil {
		return "", err
	}
	if text, err := exec.Command(filepath.Join(repo, "bin", "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("seal: %w\n%s", err, text)
	}
	return catalog, nil
})

// TestPoints: a kernel with a plugin at every point of the scheduling cycle places
// pods by them, makes one wait for another, tells what refused one, and goes on
// beside plugins that panic and hang.
func TestPoints(t *testing.T) {
	t.Parallel()
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	catalog, err := cycleBundle()
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"wasm", "process"} {
		t.Run(transport, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "pintle.yaml"), fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  bundles:
  - name: classic
  - {name: cycle, transport: %s}
scheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 500ms
  profiles:
  - schedulerName: default-scheduler
    preEnqueue: [Enter]
    queueSort: Order
    preFilter: [Narrow]
    predicates: [PodFitsResources]
    postFilter: [Nominate]
    preScore: [Look]
    priorities: [{name: LeastRequestedPriority}]
    reserve: [First, Second]
    permit: [Hold]
    preBind: [Before]
    bind: [Write]
    postBind: [After]
  - {schedulerName: plain, queueSort: Order, predicates: [PodFitsResources]}
`, own, catalog, transport))
			e := minimal(t, file, filepath.Join(t.TempDir(), "data"))
			e.placer(t)
			create := func(name, scheduler string, labels ...string) {
				t.Helper()
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: corev1.PodSpec{
					SchedulerName: scheduler,
					Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers:    []corev1.Container{{Name: "c", Image: "i"}},
				}}
				for i := 0; i+1 < len(labels); i += 2 {
					pod.Labels[labels[i]] = labels[i+1]
				}
				if _, err := e.client.CoreV1().Pods("default").Create(bound(t), pod, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			const own = "default-scheduler"
			create("first", own)
			e.placed(t, "first")
			pod, err := e.client.CoreV1().Pods("default").Get(bound(t), "first", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if by := pod.Annotations["example.com/bound-by"]; by != pod.Spec.NodeName {
				t.Errorf("the binding says %q, the pod is on %s", by, pod.Spec.NodeName)
			}

			// What one plugin refuses is told; what another panics or hangs over
			// holds up nobody.
			create("refused", own, "at", "permit", "do", "refuse")
			create("panics", own, "at", "reserve", "do", "panic")
			e.refused(t, "refused", "0/1 nodes are available: 1 refused by permit.")
			e.refused(t, "panics", `running Reserve plugin "Second"`)
			create("away", own, "at", "pre-enqueue", "do", "refuse")
			create("hangs", own, "at", "pre-bind", "do", "hang")
			create("beside", "plain")
			e.placed(t, "beside")
			if err := e.client.CoreV1().Pods("default").Delete(bound(t), "hangs", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			create("after", own)
			e.placed(t, "after")

			// One waits until another lets it go.
			create("held", own, "wait", "yes")
			create("zz-beside", "plain") // stands behind it in the queue
			e.placed(t, "zz-beside")
			for _, name := range []string{"held", "away"} {
				if pod, err = e.client.CoreV1().Pods("default").Get(bound(t), name, metav1.GetOptions{}); err != nil || pod.Spec.NodeName != "" {
					t.Errorf("pod %s is on %q, %v", name, pod.Spec.NodeName, err)
				}
			}
			create("opens", own)
			e.placed(t, "opens")
			e.placed(t, "held")

			eventually(t, func(context.Context) error { // states are written beside the cycles
				out := e.kubectl(t, "get", "plugins", "Enter", "Order", "Hold", "After", "-o", "jsonpath={range .items[*]}{.spec.kind}:{.status.state} {end}")
				if strings.TrimSpace(out) != "pre-enqueue:Ready queue-sort:Ready permit:Ready post-bind:Ready" {
					return fmt.Errorf("plugins: %s", out)
				}
				return nil
			})
			e.stop(t)
		})
	}
}
