package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
