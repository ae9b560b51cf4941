package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// daemon is the pid of the bundled containerd.
func (e *env) daemon(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.Data, "run", "runtime-containerd", "containerd.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		t.Fatalf("pid of containerd: %q, %v", text, err)
	}
	return pid
}

// nodeIs waits until the node's Ready condition has a status and its message
// holds a text.
func (e *env) nodeIs(t testing.TB, status corev1.ConditionStatus, text string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, c := range nodes.Items[0].Status.Conditions {
			if c.Type == corev1.NodeReady {
				if c.Status == status && strings.Contains(c.Message, text) {
					return nil
				}
				return fmt.Errorf("node is ready: %s, %s: %s", c.Status, c.Reason, c.Message)
			}
		}
		return errors.New("the node does not say whether it is ready")
	})
}

// TestContainerdKilled kills the container runtime's daemon, which no process
// of Pintle is the child of: containers go on untouched, the daemon is started
// again, logs and exec work again, and a daemon that cannot start makes the
// node not ready until it can (CRI-3, KLT-23).
func TestContainerdKilled(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "containerd-killed", Config: "configs/standalone.yaml"})
	e := start()
	const ns = "default"
	e.awaitAccount(t, ns)
	e.apply(t, ns, deployment("web", box, 2)+service("web", "web"))
	e.rolledOut(t, ns, "web")
	e.answers(t, ns, "web", "web")
	before := e.lives(t, ns, "web")

	kill := func() (old int) {
		old = e.daemon(t)
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return old
	}
	whole := func(when string) {
		t.Helper()
		for name := range before {
			eventually(t, func(context.Context) error {
				if r := e.try(t, "-n", ns, "exec", name, "--", "/box", "echo", "alive"); r.err != nil || r.stdout != "alive\n" {
					return fmt.Errorf("exec %s: %+v", when, r)
				}
				return nil
			})
			if log := e.logs(t, ns, name, "box"); strings.Count(log, "serving") != 1 {
				t.Errorf("log of %s %s:\n%s", name, when, log)
			}
		}
		e.answers(t, ns, "web", "web")
		if after := e.lives(t, ns, "web"); !maps.Equal(before, after) {
			t.Errorf("pods %s:\nbefore %v\nafter  %v", when, before, after)
		}
	}

	old := kill()
	e.answers(t, ns, "web", "web") // packets need no daemon
	if err := e.AwaitLog(bound(t), "containerd has ended and is started again"); err != nil {
		t.Errorf("the log does not tell: %v", err)
	}
	eventually(t, func(context.Context) error {
		if pid := e.daemon(t); pid == old {
			return fmt.Errorf("containerd is %d still", pid)
		}
		return nil
	})
	whole("after containerd was killed")

	// A configuration that containerd does not take keeps it from starting.
	file := filepath.Join(e.Data, "runtime", "containerd", "config.toml")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("version = nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kill()
	e.nodeIs(t, corev1.ConditionFalse, "container runtime is down")
	if err := e.AwaitLog(bound(t), "runtime is not ready", "containerd ended at once"); err != nil {
		t.Errorf("the log does not tell why: %v", err)
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	e.nodeIs(t, corev1.ConditionTrue, "kubelet is posting ready status")
	whole("after containerd was down for a while")
	e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas=3")
	e.rolledOut(t, ns, "web")
}

// TestShimKilled kills the process that holds a pod's containers: they are
// reported dead and come back by the restart policy; other pods go on (KLT-1).
func TestShimKilled(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: again}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: `+box+`, args: [wait, again]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: never}
spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: c, image: `+box+`, args: [wait, never]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: `+box+`, args: [wait, other]}]}
`)
	other := e.awaitPod(t, ns, "other", isReady)
	for _, name := range []string{"again", "never"} {
		pod := e.awaitPod(t, ns, name, isReady)
		_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		process := inCgroup(t, id)
		shim := parent(t, process)
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", shim)); err != nil || !strings.Contains(string(cmdline), "containerd-shim") || !strings.Contains(string(cmdline), e.Data) {
			t.Fatalf("parent %d of the container's process is no shim of this cluster: %q, %v", shim, cmdline, err)
		}
		if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(context.Context) error {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", process)); err == nil {
				return fmt.Errorf("process %d of container %s outlives its shim", process, id)
			}
			return nil
		})
	}
	pod := e.awaitPod(t, ns, "again", func(p *corev1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		}
		return isReady(p)
	})
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode == 0 || last.Reason != "Error" {
		t.Errorf("last state of the container whose shim was killed: %+v", last)
	}
	contains(t, e.logs(t, ns, "again", "c"), "started again")
	pod = e.awaitPod(t, ns, "never", hasPhase(corev1.PodFailed))
	if s := pod.Status.ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode == 0 || s.RestartCount != 0 {
		t.Errorf("restart policy Never: %+v", s)
	}
	if now := e.awaitPod(t, ns, "other", isReady); now.Status.ContainerStatuses[0].ContainerID != other.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("another pod's container was restarted: %+v", now.Status.ContainerStatuses)
	}
}

// inCgroup is a process of a container, by the name of its cgroup.
func inCgroup(t testing.TB, id string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if groups, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cgroup")); err == nil && strings.Contains(string(groups), id) {
			return pid
		}
	}
	t.Fatalf("no process is in a cgroup of container %s", id)
	return 0
}

// parent is the parent of a process.
func parent(t testing.TB, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// TestEverythingKilled kills the kernel, then containerd and one shim, as a machine out of memory does. The next start
// takes the containers that are left over untouched and makes the one anew; its stop leaves nothing (CRI-3, KLT-1).
func TestEverythingKilled(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "everything-killed", Config: "configs/standalone.yaml"})
	e := start()
	const ns = "default"
	e.awaitAccount(t, ns)
	e.apply(t, ns, deployment("web", box, 2)+deployment("hit", box, 1)+service("web", "web"))
	e.rolledOut(t, ns, "web")
	e.rolledOut(t, ns, "hit")
	before := e.lives(t, ns, "web")
	var shim int
	for name := range e.lives(t, ns, "hit") {
		_, id, _ := strings.Cut(e.awaitPod(t, ns, name, isReady).Status.ContainerStatuses[0].ContainerID, "://")
		shim = parent(t, inCgroup(t, id))
	}
	daemon := e.daemon(t)
	e.Kill()
	for _, pid := range []int{daemon, shim} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	e = start()
	eventually(t, func(context.Context) error {
		for name, l := range e.lives(t, ns, "hit") {
			if l.restarts == 0 {
				return fmt.Errorf("pod %s was not restarted: %+v", name, l)
			}
		}
		return nil
	})
	e.rolledOut(t, ns, "hit")
	e.rolledOut(t, ns, "web")
	e.answers(t, ns, "web", "web")
	if after := e.lives(t, ns, "web"); !maps.Equal(before, after) {
		t.Errorf("untouched pods:\nbefore %v\nafter  %v", before, after)
	}
}
