package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestInitAndSidecar: init containers run one after the other, a sidecar among
// them starts before the main container, ends after it, and does not keep a pod
// from completing.
func TestInitAndSidecar(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: order}
spec:
  restartPolicy: Never
  volumes: [{name: diary, emptyDir: {}}]
  initContainers:
  - {name: first, image: `+box+`, args: [write, /diary/log, first], volumeMounts: [{name: diary, mountPath: /diary}]}
  - name: side
    image: `+box+`
    args: [serve]
    restartPolicy: Always
    startupProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 30}
  - {name: second, image: `+box+`, args: [write, /diary/log, second], volumeMounts: [{name: diary, mountPath: /diary}]}
  containers:
  - {name: main, image: `+box+`, args: [cat, /diary/log], volumeMounts: [{name: diary, mountPath: /diary}]}
  - {name: ask, image: `+box+`, args: [get, "http://127.0.0.1:8080/healthz"]}
`)
	pod := e.awaitPod(t, ns, "order", hasPhase(corev1.PodSucceeded))
	if out := e.logs(t, ns, "order", "main"); out != "first\nsecond\n" {
		t.Errorf("main read %q", out)
	}
	if out := e.logs(t, ns, "order", "ask"); out != "200\nok\n" {
		t.Errorf("the sidecar answered %q", out)
	}
	inits := pod.Status.InitContainerStatuses
	if len(inits) != 3 || inits[0].State.Terminated == nil || inits[1].State.Terminated == nil || inits[2].State.Terminated == nil {
		t.Fatalf("init containers: %+v", inits)
	}
	if !strings.Contains(e.logs(t, ns, "order", "side"), "stopped") {
		t.Error("the sidecar was not asked to end")
	}
	main, side := pod.Status.ContainerStatuses[1].State.Terminated, inits[1].State.Terminated
	if side.FinishedAt.Before(&main.FinishedAt) {
		t.Errorf("the sidecar ended at %s, before main at %s", side.FinishedAt, main.FinishedAt)
	}
	contains(t, e.kubectl(t, "-n", ns, "get", "pod", "order"), "Completed", "0/3")
}

// TestFailingInit: the main container never starts, and kubectl says why.
func TestFailingInit(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: never}
spec:
  restartPolicy: Never
  initContainers: [{name: broken, image: `+box+`, args: [exit, "7", "no luck"]}]
  containers: [{name: main, image: `+box+`}]
`)
	pod := e.awaitPod(t, ns, "never", hasPhase(corev1.PodFailed))
	end := pod.Status.InitContainerStatuses[0].State.Terminated
	if end == nil || end.ExitCode != 7 || end.Reason != "Error" || end.Message != "no luck" {
		t.Errorf("init container ended with %+v", end)
	}
	if w := pod.Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "PodInitializing" {
		t.Errorf("main container: %+v", pod.Status.ContainerStatuses[0].State)
	}
	contains(t, e.kubectl(t, "-n", ns, "get", "pod", "never"), "Init:Error")
}

// TestRestarts: the restart policies, the back-off and its words.
func TestRestarts(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: always}
spec: {containers: [{name: c, image: `+box+`, args: [exit, "1", "as always"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: on-failure}
spec: {restartPolicy: OnFailure, containers: [{name: good, image: `+box+`, args: [exit, "0"]}, {name: bad, image: `+box+`, args: [exit, "2"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: never}
spec: {restartPolicy: Never, containers: [{name: good, image: `+box+`, args: [exit, "0"]}, {name: bad, image: `+box+`, args: [exit, "3"]}]}
`)
	crashes := func(container int) func(p *corev1.Pod) error {
		return func(p *corev1.Pod) error {
			if len(p.Status.ContainerStatuses) <= container {
				return errors.New("no status yet")
			}
			s := p.Status.ContainerStatuses[container]
			if s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.RestartCount < 1 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		}
	}
	// Statuses are in the order of names.
	pod := e.awaitPod(t, ns, "always", crashes(0))
	s := pod.Status.ContainerStatuses[0]
	if !strings.HasPrefix(s.State.Waiting.Message, "back-off ") || !strings.Contains(s.State.Waiting.Message, "restarting failed container=c pod=always_"+ns) {
		t.Errorf("waiting: %q", s.State.Waiting.Message)
	}
	if l := s.LastTerminationState.Terminated; l == nil || l.ExitCode != 1 || l.Message != "as always" {
		t.Errorf("last state: %+v", l)
	}
	if pod.Status.Phase != corev1.PodRunning {
		t.Errorf("phase of a crashing pod is %s", pod.Status.Phase)
	}
	contains(t, e.kubectl(t, "-n", ns, "get", "pod", "always"), "CrashLoopBackOff", "0/1")
	contains(t, e.kubectl(t, "-n", ns, "logs", "--previous", "always"), "as always")
	eventually(t, func(ctx context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		if !strings.Contains(out, "BackOff") || !strings.Contains(out, "Back-off restarting failed container c in pod always_") {
			return errors.New(out)
		}
		return nil
	})
	pod = e.awaitPod(t, ns, "on-failure", crashes(0))
	if g := pod.Status.ContainerStatuses[1]; g.RestartCount != 0 || g.State.Terminated == nil || g.State.Terminated.Reason != "Completed" {
		t.Errorf("a completed container of OnFailure: %+v", g)
	}
	pod = e.awaitPod(t, ns, "never", hasPhase(corev1.PodFailed))
	if b := pod.Status.ContainerStatuses[0]; b.RestartCount != 0 || b.State.Terminated.ExitCode != 3 {
		t.Errorf("a failed container of Never: %+v", b)
	}
}

// TestPulls: the words for images that cannot be had, and the pull policies.
func TestPulls(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: missing}
spec: {containers: [{name: c, image: "`+registryAddress+`/missing:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: malformed}
spec: {containers: [{name: c, image: "NOT A NAME"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: absent}
spec: {containers: [{name: c, image: "`+registryAddress+`/absent:1", imagePullPolicy: Never}]}
---
apiVersion: v1
kind: Pod
metadata: {name: present}
spec: {containers: [{name: c, image: "`+registryAddress+`/box:2", imagePullPolicy: Always}]}
`)
	waits := func(reason string) func(p *corev1.Pod) error {
		return func(p *corev1.Pod) error {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].State.Waiting.Reason != reason {
				return fmt.Errorf("want %s: %+v", reason, p.Status.ContainerStatuses)
			}
			return nil
		}
	}
	pod := e.awaitPod(t, ns, "missing", waits("ImagePullBackOff"))
	contains(t, pod.Status.ContainerStatuses[0].State.Waiting.Message, `Back-off pulling image "`+registryAddress+`/missing:1"`)
	e.awaitPod(t, ns, "malformed", waits("InvalidImageName"))
	e.awaitPod(t, ns, "absent", waits("ErrImageNeverPull"))
	pod = e.awaitPod(t, ns, "present", isReady)
	if id := pod.Status.ContainerStatuses[0].ImageID; !strings.Contains(id, "@sha256:") {
		t.Errorf("image id %q names no digest", id)
	}
	eventually(t, func(ctx context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		for _, w := range []string{
			`Pulling image "` + registryAddress + `/missing:1"`, `Failed to pull image "` + registryAddress + `/missing:1"`,
			"Error: ErrImagePull", "Error: ImagePullBackOff", "InspectFailed", "ErrImageNeverPull",
			`Successfully pulled image "` + registryAddress + `/box:2" in `,
		} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("%q is not among the events:\n%s", w, out)
			}
		}
		return nil
	})
}

// TestTermination: SIGTERM first, SIGKILL when the grace period ends, and a
// pod stays visible as Terminating meanwhile.
func TestTermination(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: polite}
spec: {containers: [{name: c, image: `+box+`, args: [wait, polite, 300ms]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: `+box+`, args: [wait, stubborn, 1h]}]}
`)
	e.awaitPod(t, ns, "polite", isReady)
	e.awaitPod(t, ns, "stubborn", isReady)
	follow := make(chan string)
	go func() {
		data, err := e.client.CoreV1().Pods(ns).GetLogs("polite", &corev1.PodLogOptions{Follow: true}).DoRaw(t.Context())
		follow <- fmt.Sprint(string(data), err)
	}()
	w, err := e.client.CoreV1().Pods(ns).Watch(bound(t), metav1.ListOptions{FieldSelector: "metadata.name=polite"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	begin := time.Now()
	e.kubectl(t, "-n", ns, "delete", "pod", "stubborn", "polite")
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("deletion took %s; the stubborn pod was to be killed after 1s", took)
	}
	contains(t, <-follow, "started polite", "terminating", "ended")
	var terminating, ended bool
	for ev := range w.ResultChan() {
		p, ok := ev.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watch: %v", ev.Object)
		}
		terminating = terminating || p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodRunning
		if s := p.Status.ContainerStatuses; len(s) == 1 && s[0].State.Terminated != nil {
			ended = ended || s[0].State.Terminated.ExitCode == 0
		}
		if ev.Type == "DELETED" {
			break
		}
	}
	if !terminating || !ended {
		t.Errorf("seen terminating: %v, seen the exit code: %v", terminating, ended)
	}
}

// TestMemoryLimit: a container that takes more than its limit is killed, and
// the pod says OOMKilled.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  restartPolicy: Never
  containers: [{name: c, image: `+box+`, args: [consume, "200"], resources: {limits: {memory: 40Mi, cpu: 500m}}}]
`)
	pod := e.awaitPod(t, ns, "greedy", hasPhase(corev1.PodFailed))
	if end := pod.Status.ContainerStatuses[0].State.Terminated; end == nil || end.Reason != "OOMKilled" || end.ExitCode != 137 {
		t.Errorf("the container ended with %+v", end)
	}
	if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("QoS class is %s", pod.Status.QOSClass)
	}
}

// TestUsers: security context and image configuration.
func TestUsers(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  restartPolicy: Never
  hostname: boxer
  securityContext: {runAsUser: 1234, runAsGroup: 2345, fsGroup: 3456}
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - {name: who, image: `+box+`, args: [whoami], workingDir: /tmp}
  - {name: file, image: `+box+`, args: [write, /v/file, mine], volumeMounts: [{name: v, mountPath: /v}]}
  - {name: readonly, image: `+box+`, args: [write, /tmp/file, mine], securityContext: {readOnlyRootFilesystem: true}}
---
apiVersion: v1
kind: Pod
metadata: {name: root}
spec: {restartPolicy: Never, containers: [{name: c, image: `+box+`, args: [whoami], securityContext: {runAsNonRoot: true}}]}
`)
	pod := e.awaitPod(t, ns, "user", hasPhase(corev1.PodFailed))
	contains(t, e.logs(t, ns, "user", "who"), "uid=1234 gid=2345", "3456", "host=boxer", "dir=/tmp", "pid=1\n")
	for _, s := range pod.Status.ContainerStatuses {
		if want := s.Name == "readonly"; (s.State.Terminated.ExitCode != 0) != want {
			t.Errorf("%s: %+v", s.Name, s.State.Terminated)
		}
	}
	contains(t, e.logs(t, ns, "user", "readonly"), "read-only file system")
	e.awaitPod(t, ns, "root", func(p *corev1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].State.Waiting.Reason != "CreateContainerConfigError" {
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		}
		contains(t, p.Status.ContainerStatuses[0].State.Waiting.Message, "container has runAsNonRoot and image will run as root")
		return nil
	})
}

// TestTerminals: exec and attach with and without a terminal.
func TestTerminals(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	kubectl, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: box}
spec: {containers: [{name: c, image: `+box+`, args: [wait, box]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: talk}
spec: {restartPolicy: Never, containers: [{name: c, image: `+box+`, args: [ask], stdin: true, stdinOnce: true, tty: true}]}
`)
	e.awaitPod(t, ns, "box", isReady)
	t.Run("exec with terminal", func(t *testing.T) {
		cmd := e.Command(bound(t), kubectl, "-n", ns, "exec", "-it", "box", "--", "/box", "ask")
		tty := startTerminal(t, e.Network, cmd)
		tty.expect(t, "this is a terminal of 100x40")
		tty.write(t, "good day\n")
		tty.expect(t, `heard "good day"`)
		tty.write(t, "bye\n")
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("exec ended with %v, want the program's code 3", err)
		}
	})
	t.Run("exec without terminal", func(t *testing.T) {
		r := e.run(t, "one\ntwo\n", kubectl, "-n", ns, "exec", "-i", "box", "--", "/box", "ask")
		if r.err != nil || r.stdout != "this is no terminal\nheard \"one\"\nheard \"two\"\n" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("exec of nothing", func(t *testing.T) {
		r := e.try(t, "-n", ns, "exec", "box", "--", "/nothing")
		if r.err == nil {
			t.Error("a missing program succeeded")
		}
		contains(t, r.stderr, "no such file or directory")
	})
	t.Run("attach", func(t *testing.T) {
		e.awaitPod(t, ns, "talk", isReady)
		cmd := e.Command(bound(t), kubectl, "-n", ns, "attach", "-it", "talk")
		tty := startTerminal(t, e.Network, cmd)
		tty.write(t, "hello\n")
		tty.expect(t, `heard "hello"`)
		tty.write(t, "bye\n")
		_ = cmd.Wait()
		pod := e.awaitPod(t, ns, "talk", hasPhase(corev1.PodFailed))
		if end := pod.Status.ContainerStatuses[0].State.Terminated; end.ExitCode != 3 {
			t.Errorf("ended with %+v", end)
		}
	})
	t.Run("copy", func(t *testing.T) {
		// kubectl cp needs tar in the image; its words are kubectl's own.
		if r := e.try(t, "-n", ns, "cp", "box:/etc/passwd", t.TempDir()+"/passwd"); r.err == nil {
			t.Error("cp succeeded without tar")
		}
	})
	t.Run("debug", func(t *testing.T) {
		args := []string{"-n", ns, "debug", "box", "--image=" + box, "--target=c", "--container=debugger"}
		command := []string{"--", "/box", "wait", "debugging"}
		// kubectl's own profile, general, adds SYS_PTRACE, which the level baseline has not.
		if r := e.try(t, slices.Concat(args, command)...); r.err == nil || !strings.Contains(r.stderr, `violates PodSecurity "baseline:latest"`) {
			t.Errorf("debug with SYS_PTRACE: %v\n%s%s", r.err, r.stdout, r.stderr)
		}
		e.kubectl(t, slices.Concat(args, []string{"--profile=baseline"}, command)...)
		e.awaitPod(t, ns, "box", func(p *corev1.Pod) error {
			if s := p.Status.EphemeralContainerStatuses; len(s) != 1 || s[0].State.Running == nil {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		eventually(t, func(context.Context) error {
			if log := e.logs(t, ns, "box", "debugger"); !strings.Contains(log, "started debugging") {
				return fmt.Errorf("log %q", log)
			}
			return nil
		})
	})
}

// TestLogs: limits, previous, since, all containers, words for what is not there.
func TestLogs(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: many}
spec: {containers: [{name: a, image: `+box+`, args: [lines, "5000"]}, {name: b, image: `+box+`, args: [wait, b]}]}
`)
	e.awaitPod(t, ns, "many", isReady)
	for _, c := range []struct{ args, want string }{
		{"-c a --tail=2", "line 4999\nstarted lines\n"},
		{"-c a --tail=5 --limit-bytes=9", "line 4996"},
		{"-c b", "started b\n"},
	} {
		if out := e.kubectl(t, append([]string{"-n", ns, "logs", "many"}, strings.Fields(c.args)...)...); out != c.want {
			t.Errorf("logs %s: %q, want %q", c.args, out, c.want)
		}
	}
	contains(t, e.kubectl(t, "-n", ns, "logs", "many", "--all-containers", "--prefix", "--tail=1"), "[pod/many/a] started lines\n", "[pod/many/b] started b\n")
	if all := e.kubectl(t, "-n", ns, "logs", "many", "-c", "a"); strings.Count(all, "\n") != 5001 {
		t.Errorf("%d lines, want 5001", strings.Count(all, "\n"))
	}
	r := e.try(t, "-n", ns, "logs", "many", "-c", "nobody")
	contains(t, r.stderr, "container nobody is not valid for pod many")
	r = e.try(t, "-n", ns, "logs", "many", "-c", "a", "--previous")
	contains(t, r.stderr, `previous terminated container "a" in pod "many" not found`)
}
