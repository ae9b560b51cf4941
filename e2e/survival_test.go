package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestMachineSurvives: H5: no pod is more protected from the out-of-memory killer than the kernel, containerd and its
// shims, and all pods together have less memory than the machine.
func TestMachineSurvives(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: guaranteed}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: `+box+`
    args: [wait, guaranteed]
    resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 50m, memory: 32Mi}}
`)
	pod := e.awaitPod(t, ns, "guaranteed", isReady)
	if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Fatalf("the pod is %s", pod.Status.QOSClass)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	process := inCgroup(t, id)
	score := func(pid int) int {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	of := score(process)
	shim := parent(t, process)
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", shim)); err != nil || !strings.HasPrefix(string(name), "containerd-shim") {
		t.Fatalf("the container's parent is %q (%v)", name, err)
	}
	for what, pid := range map[string]int{"the kernel": e.Pid(), "its shim": shim} {
		if n := score(pid); n >= of {
			t.Errorf("%s has the score %d, the container %d", what, n, of)
		}
	}
	node, err := e.client.CoreV1().Nodes().Get(bound(t), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allocatable, capacity := node.Status.Allocatable.Memory().Value(), node.Status.Capacity.Memory().Value()
	if allocatable >= capacity {
		t.Errorf("nothing is reserved: allocatable %d of %d", allocatable, capacity)
	}
	var limit int64
	for _, file := range []string{"/sys/fs/cgroup/kubepods/memory.max", "/sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(filepath.Clean(file)); err == nil {
			limit, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		}
	}
	if limit <= 0 || limit >= capacity {
		t.Errorf("the limit of all pods is %d of %d", limit, capacity)
	}
}

// TestThresholds: a node keeps free what the kubelet does by default; those of the tests keep bytes, so that they run on
// a disk that is nearly full.
func TestThresholds(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	for name, tt := range map[string]struct {
		own  bool
		want []string
	}{
		"default":      {true, []string{`"nodefs.available":"10%"`, `"imagefs.available":"15%"`, `"nodefs.inodesFree":"5%"`, `"imageGCHighThresholdPercent":85`}},
		"of the tests": {false, []string{`"nodefs.available":"1073741824"`, `"imagefs.available":"1073741824"`, `"imageGCHighThresholdPercent":100`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := launched(t, cluster.Options{Name: "thresholds-" + strings.ReplaceAll(name, " ", "-"), Config: "configs/minimal.yaml", OwnThresholds: tt.own})
			contains(t, e.kubectl(t, "get", "--raw", "/configz"), append(tt.want, `"memory.available":"100Mi"`)...)
		})
	}
}

// TestDiskFiller: H4: a pod that fills the disk of the data directory is evicted, in the kubelet's words; what it wrote is
// given back, and the API takes writes.
func TestDiskFiller(t *testing.T) {
	needContainers(t)
	disk := smallDisk(t, "2g")
	e := private(t, cluster.Options{
		Name: "filler", Config: write(t, filepath.Join(t.TempDir(), "pintle.yaml"), strings.Replace(read(t, filepath.Join("..", "configs", "standalone.yaml")), "\nnode:\n", `
node:
  evictionHard: {nodefs.available: 40%}
  evictionPressureTransitionPeriod: 1s
`, 1)), Data: filepath.Join(disk, "data"),
		Set: []string{"plugins.directories=[" + filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins") + "]"}, OwnThresholds: true,
	})
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: quiet}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: `+box+`, args: [wait, quiet]}]
---
apiVersion: v1
kind: Pod
metadata: {name: filler}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: `+box+`, args: [fill, /filler]}]
`)
	pod := e.awaitPod(t, ns, "filler", func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Evicted" {
			return fmt.Errorf("phase %s, reason %q", p.Status.Phase, p.Status.Reason)
		}
		return nil
	})
	if m := pod.Status.Message; !strings.Contains(m, "The node was low on resource: ephemeral-storage. Threshold quantity: ") || !strings.Contains(m, "Container c was using ") {
		t.Errorf("message %q", m)
	}
	pressure := func(want corev1.ConditionStatus, reason string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			node, err := e.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeDiskPressure && c.Status == want && c.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("%+v", node.Status.Conditions)
		})
	}
	pressure(corev1.ConditionFalse, "KubeletHasNoDiskPressure")
	eventually(t, func(context.Context) error {
		out := e.kubectl(t, "get", "events", "-A")
		for _, word := range []string{"NodeHasDiskPressure", "NodeHasNoDiskPressure", "EvictionThresholdMet", "Evicted"} {
			if !strings.Contains(out, word) {
				return fmt.Errorf("no event %s:\n%s", word, out)
			}
		}
		return nil
	})
	// The other one stays, and the API takes writes.
	e.awaitPod(t, ns, "quiet", isReady)
	e.kubectl(t, "-n", ns, "create", "configmap", "a")
	e.kubectl(t, "-n", ns, "delete", "pod", "filler")
}
