package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestResize: kubectl's resize changes the limits of a running container, which sees them at once and is not
// restarted; what the node lacks is deferred (KEP-1287).
func TestResize(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: size}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: info, downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}]
  containers:
  - name: c
    image: `+box+`
    args: [wait, size]
    resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}
    volumeMounts: [{name: info, mountPath: /info}]
`)
	before := e.awaitPod(t, ns, "size", isReady).Status.ContainerStatuses[0]
	patch := func(resources string) {
		t.Helper()
		e.kubectl(t, "-n", ns, "patch", "pod", "size", "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"c","resources":`+resources+`}]}}`)
	}
	patch(`{"requests":{"cpu":"150m"},"limits":{"cpu":"500m","memory":"96Mi"}}`)
	pod := e.awaitPod(t, ns, "size", func(p *corev1.Pod) error {
		s := p.Status.ContainerStatuses[0]
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizeInProgress || c.Type == corev1.PodResizePending {
				return fmt.Errorf("%+v", c)
			}
		}
		if s.Resources == nil || s.Resources.Limits.Cpu().String() != "500m" || s.Resources.Limits.Memory().String() != "96Mi" || s.AllocatedResources.Cpu().String() != "150m" {
			return fmt.Errorf("%+v", s.Resources)
		}
		return nil
	})
	after := pod.Status.ContainerStatuses[0]
	if after.ContainerID != before.ContainerID || after.RestartCount != 0 {
		t.Errorf("the container was restarted: %+v", after)
	}
	_, id, _ := strings.Cut(after.ContainerID, "://")
	if quota, memory := limits(t, inCgroup(t, id)); quota != "50000" || memory != "100663296" {
		t.Errorf("in the cgroup: quota %s, memory %s", quota, memory)
	}
	eventually(t, func(context.Context) error {
		if out := e.kubectl(t, "-n", ns, "exec", "size", "--", "/box", "cat", "/info/cpu"); out != "500" {
			return fmt.Errorf("the downward API volume shows %q", out)
		}
		out := e.kubectl(t, "-n", ns, "get", "events")
		if !strings.Contains(out, "ResizeStarted") || !strings.Contains(out, "Pod resize completed: {") {
			return errors.New(out)
		}
		return nil
	})
	// More than the node has is refused; what others have of it waits.
	const tooMuch = `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1000"},"limits":{"cpu":"1000"}}}]}}`
	if r := e.try(t, "-n", ns, "patch", "pod", "size", "--subresource=resize", "-p", tooMuch); r.err == nil || !strings.Contains(r.stderr, "node didn't have enough allocatable resources: cpu, requested: 1000000") {
		t.Errorf("1000 CPUs: %+v", r)
	}
	node, err := e.client.CoreV1().Nodes().Get(bound(t), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := node.Status.Allocatable.Cpu().String()
	e.apply(t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec:\n  containers: [{name: c, image: "+box+", args: [wait], resources: {requests: {cpu: 100m}}}]\n")
	e.awaitPod(t, ns, "other", isReady)
	patch(`{"requests":{"cpu":"` + all + `"},"limits":{"cpu":"` + all + `"}}`)
	e.awaitPod(t, ns, "size", func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonDeferred && strings.Contains(c.Message, "Node didn't have enough resource: cpu") {
				return isReady(p)
			}
		}
		return fmt.Errorf("%+v", p.Status.Conditions)
	})
	patch(`{"requests":{"cpu":"50m"},"limits":{"cpu":"100m"}}`)
	e.awaitPod(t, ns, "size", func(p *corev1.Pod) error {
		if quota, _ := limits(t, inCgroup(t, id)); quota != "10000" {
			return fmt.Errorf("quota %s", quota)
		}
		return isReady(p)
	})
}

// limits reads CPU quota and memory limit of a process's cgroup.
func limits(t testing.TB, pid int) (quota, memory string) {
	t.Helper()
	for line := range strings.Lines(read(t, fmt.Sprintf("/proc/%d/cgroup", pid))) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, controller := range strings.Split(fields[1], ",") {
			switch controller {
			case "cpu":
				quota = strings.TrimSpace(read(t, "/sys/fs/cgroup/"+fields[1]+fields[2]+"/cpu.cfs_quota_us"))
			case "memory":
				memory = strings.TrimSpace(read(t, "/sys/fs/cgroup/memory"+fields[2]+"/memory.limit_in_bytes"))
			}
		}
		if fields[0] == "0" && quota == "" && memory == "" {
			quota, _, _ = strings.Cut(read(t, "/sys/fs/cgroup"+fields[2]+"/cpu.max"), " ")
			memory = strings.TrimSpace(read(t, "/sys/fs/cgroup"+fields[2]+"/memory.max"))
		}
	}
	return quota, memory
}

// TestRefusedByNode: what the node itself refuses or ends: unsafe sysctls, and a volume that grows over its limit
// (KLT-1, KLT-13).
func TestRefusedByNode(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: unsafe}
spec:
  securityContext: {sysctls: [{name: kernel.msgmax, value: "65536"}]}
  containers: [{name: c, image: `+box+`}]
---
apiVersion: v1
kind: Pod
metadata: {name: safe}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "80"}]}
  containers: [{name: c, image: `+box+`}]
---
apiVersion: v1
kind: Pod
metadata: {name: growing}
spec:
  volumes: [{name: v, emptyDir: {sizeLimit: 4Ki}}]
  initContainers: [{name: fill, image: `+box+`, args: [write, /v/file, "`+strings.Repeat("x", 9000)+`"], volumeMounts: [{name: v, mountPath: /v}]}]
  containers: [{name: c, image: `+box+`}]
`)
	pod := e.awaitPod(t, ns, "unsafe", hasPhase(corev1.PodFailed))
	if pod.Status.Reason != "SysctlForbidden" || pod.Status.Message != `Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted` {
		t.Errorf("unsafe: %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	contains(t, e.kubectl(t, "-n", ns, "get", "pod", "unsafe"), "SysctlForbidden")
	e.awaitPod(t, ns, "safe", isReady)
	if out := e.kubectl(t, "-n", ns, "exec", "safe", "--", "/box", "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"); out != "80\n" {
		t.Errorf("the sysctl is %q", out)
	}
	pod = e.awaitPod(t, ns, "growing", hasPhase(corev1.PodFailed))
	if pod.Status.Reason != "Evicted" || pod.Status.Message != `Usage of EmptyDir volume "v" exceeds the limit "4Ki". ` {
		t.Errorf("growing: %s: %q", pod.Status.Reason, pod.Status.Message)
	}
}
