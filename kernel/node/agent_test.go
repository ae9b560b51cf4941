package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/kernel/node/cri/critest"
	"pintle.dev/pintle/kernel/node/listener"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nodeName = "n1"

// world is an agent over a runtime and an API in memory.
type world struct {
	t       *testing.T
	client  *fake.Clientset
	runtime *critest.Runtime
	root    string
	cfg     Config
	stop    func()
	agent   *Agent
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(), runtime: critest.New(t), root: t.TempDir()}
	w.runtime.AddImage("img:1")
	w.cfg = Config{
		NodeName: nodeName, CRIEndpoint: w.runtime.Endpoint, RootDir: w.root, Port: -1, NodeIPs: []string{"127.0.0.1"},
		RelistPeriod: 50 * time.Millisecond, EventedRelistPeriod: 50 * time.Millisecond,
		CrashBackOff: 20 * time.Millisecond, MaxCrashBackOff: 50 * time.Millisecond,
	}
	if change != nil {
		change(&w.cfg)
	}
	w.start()
	t.Cleanup(func() {
		w.stop()
		if err := w.agent.TearDown(context.Background()); err != nil {
			t.Errorf("tear down: %v", err)
		}
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	level := slog.LevelError + 1
	out := io.Writer(io.Discard)
	if testing.Verbose() && os.Getenv("NODE_TEST_LOG") != "" {
		level, out = slog.LevelDebug, os.Stderr
	}
	a, err := New(w.cfg, Deps{Client: w.client, Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	w.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	select {
	case <-a.Ready():
	case <-time.After(2 * time.Minute):
		w.t.Fatal("the agent did not become ready")
	}
}

// eventually polls a condition with a bound.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("never happened: %s\ncalls: %v\nevents:\n%s", what, w.runtime.Called(), strings.Join(w.events(), "\n"))
}

func (w *world) get(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) events() []string {
	list, err := w.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		out = append(out, fmt.Sprintf("%s %s %s: %s", e.Type, e.InvolvedObject.Name, e.Reason, e.Message))
	}
	return out
}

func (w *world) hasEvent(part string) bool {
	return slices.ContainsFunc(w.events(), func(e string) bool { return strings.Contains(e, part) })
}

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	grace, links := int64(30), false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			NodeName: nodeName, RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &links,
			DNSPolicy: corev1.DNSClusterFirst,
			Containers: []corev1.Container{{
				Name: "main", Image: "img:1", ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(p)
	}
	return p
}

func (w *world) create(p *corev1.Pod) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Pods(p.Namespace).Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// deleteGracefully does what the API does at a delete request.
func (w *world) deleteGracefully(name string, grace int64) {
	w.t.Helper()
	p := w.get(name)
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	p.Generation++
	if _, err := w.client.CoreV1().Pods("default").Update(w.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) phase(name string) corev1.PodPhase {
	if p := w.get(name); p != nil {
		return p.Status.Phase
	}
	return ""
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// TestPodRuns: KLT-1, KLT-26, KLT-32, KNS-1..5, NOD-10..12: registration, and one pod from bound to Running.
func TestPodRuns(t *testing.T) {
	w := newWorld(t, nil)
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Labels[corev1.LabelHostname] != nodeName || n.Labels[corev1.LabelOSStable] != "linux" || n.Status.Allocatable.Pods().Value() != 110 ||
		n.Status.NodeInfo.ContainerRuntimeVersion != "fake://1.0" || n.Status.Addresses[0].Address != "127.0.0.1" {
		t.Fatalf("node is not registered as it should be: %+v", n)
	}
	w.eventually("node ready", func() bool {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && c.Reason == "KubeletReady"
		})
	})
	w.eventually("lease", func() bool {
		l, err := w.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), nodeName, metav1.GetOptions{})
		return err == nil && *l.Spec.LeaseDurationSeconds == 40
	})
	w.create(newPod("web", nil))
	w.eventually("web is running and ready", func() bool { p := w.get("web"); return p.Status.Phase == corev1.PodRunning && ready(p) })
	p := w.get("web")
	s := p.Status.ContainerStatuses[0]
	if s.State.Running == nil || !s.Ready || s.Started == nil || !*s.Started || !strings.HasPrefix(s.ContainerID, "fake://") || s.RestartCount != 0 {
		t.Fatalf("container status %+v", s)
	}
	if p.Status.PodIP != "127.0.0.1" || p.Status.QOSClass != corev1.PodQOSBestEffort || p.Status.StartTime == nil || p.Status.HostIP != "127.0.0.1" {
		t.Fatalf("pod status %+v", p.Status)
	}
	want := []string{"RunPodSandbox", "CreateContainer main", "StartContainer main"}
	if got := w.runtime.Called(); !slices.Equal(got, want) {
		t.Fatalf("calls %v, want %v", got, want)
	}
	for _, e := range []string{"Normal n1 Starting: Starting kubelet.", "Pulled: Container image \"img:1\" already present on machine", "Created: Container created", "Started: Container started"} {
		w.eventually("event "+e, func() bool { return w.hasEvent(e) })
	}
	if !w.runtime.Nodes[nodeName] {
		t.Error("calls do not name the node")
	}
}

// TestRestart: 001 §9: restart policies and crash back-off; last state is kept.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		exit   int32
		want   corev1.PodPhase
	}{
		{"always-ok", corev1.RestartPolicyAlways, 0, corev1.PodRunning},
		{"onfailure-fails", corev1.RestartPolicyOnFailure, 3, corev1.PodRunning},
		{"onfailure-ok", corev1.RestartPolicyOnFailure, 0, corev1.PodSucceeded},
		{"never-ok", corev1.RestartPolicyNever, 0, corev1.PodSucceeded},
		{"never-fails", corev1.RestartPolicyNever, 3, corev1.PodFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The back-off is told when the end is seen before it is over, which a busy machine may be slow to see.
			w := newWorld(t, func(cfg *Config) { cfg.CrashBackOff, cfg.MaxCrashBackOff = 5*time.Second, 10*time.Second })
			w.create(newPod(c.name, func(p *corev1.Pod) { p.Spec.RestartPolicy = c.policy }))
			w.eventually("running", func() bool { return w.phase(c.name) == corev1.PodRunning })
			w.runtime.Exit(w.runtime.Find(c.name, "main").ID, c.exit)
			if c.want == corev1.PodRunning {
				w.eventually("restarted", func() bool {
					s := w.get(c.name).Status.ContainerStatuses[0]
					return s.RestartCount == 1 && s.State.Running != nil && s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ExitCode == c.exit
				})
				// The second end in a row is delayed, and says so.
				w.runtime.Exit(w.runtime.Find(c.name, "main").ID, c.exit)
				w.eventually("back-off event", func() bool {
					return w.hasEvent("BackOff: Back-off restarting failed container main in pod " + c.name + "_default(uid-")
				})
				w.eventually("restarted again", func() bool {
					s := w.get(c.name).Status.ContainerStatuses[0]
					return s.RestartCount == 2 && s.State.Running != nil
				})
				return
			}
			w.eventually("ended", func() bool { return w.phase(c.name) == c.want })
			if s := w.get(c.name).Status.ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != c.exit {
				t.Fatalf("container state %+v", s.State)
			}
			w.eventually("sandbox stopped", func() bool { return slices.Contains(w.runtime.Called(), "StopPodSandbox") })
		})
	}
}

// TestStartOrder: 001 §14, §15: init containers one after the other, sidecars before the next, then main containers.
func TestStartOrder(t *testing.T) {
	w := newWorld(t, nil)
	always := corev1.ContainerRestartPolicyAlways
	w.create(newPod("p", func(p *corev1.Pod) {
		c := func(name string) corev1.Container { n := *p.Spec.Containers[0].DeepCopy(); n.Name = name; return n }
		side := c("side")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []corev1.Container{c("init1"), side, c("init2")}
		p.Spec.Containers = append(p.Spec.Containers, c("second"))
	}))
	w.eventually("init1", func() bool { return w.runtime.Running("p", "init1") })
	w.eventually("pending and initializing", func() bool {
		p := w.get("p")
		return p.Status.Phase == corev1.PodPending && len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "PodInitializing" &&
			p.Status.InitContainerStatuses[0].State.Running != nil
	})
	if w.runtime.Find("p", "side") != nil || w.runtime.Find("p", "main") != nil {
		t.Fatal("a container started before the first init container ended")
	}
	w.runtime.Exit(w.runtime.Find("p", "init1").ID, 0)
	w.eventually("init2 after side", func() bool { return w.runtime.Running("p", "init2") })
	if w.runtime.Find("p", "main") != nil {
		t.Fatal("main started before the last init container ended")
	}
	w.runtime.Exit(w.runtime.Find("p", "init2").ID, 0)
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning && ready(w.get("p")) })
	var starts []string
	for _, c := range w.runtime.Called() {
		if name, ok := strings.CutPrefix(c, "StartContainer "); ok {
			starts = append(starts, name)
		}
	}
	if want := []string{"init1", "side", "init2", "main", "second"}; !slices.Equal(starts, want) {
		t.Fatalf("started %v, want %v", starts, want)
	}
}

// TestSidecarsStopLast: 001 §13: main containers first, then sidecars in reverse order of the spec.
func TestSidecarsStopLast(t *testing.T) {
	w := newWorld(t, nil)
	always := corev1.ContainerRestartPolicyAlways
	w.create(newPod("p", func(p *corev1.Pod) {
		for _, name := range []string{"side1", "side2"} {
			c := *p.Spec.Containers[0].DeepCopy()
			c.Name, c.RestartPolicy = name, &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	w.deleteGracefully("p", 30)
	w.eventually("gone", func() bool { return w.get("p") == nil })
	var stops []string
	for _, c := range w.runtime.Called() {
		if name, ok := strings.CutPrefix(c, "StopContainer "); ok {
			stops = append(stops, name)
		}
	}
	if want := []string{"main", "side2", "side1"}; !slices.Equal(stops, want) {
		t.Fatalf("stopped %v, want %v", stops, want)
	}
	w.eventually("nothing left in the runtime", func() bool {
		w.runtime.Lock()
		defer w.runtime.Unlock()
		return len(w.runtime.Sandboxes) == 0 && len(w.runtime.Containers) == 0
	})
	if _, err := os.Stat(w.root + "/pods/uid-p"); !os.IsNotExist(err) {
		t.Fatalf("the pod's directory is still there: %v", err)
	}
}

// TestGracefulStop: 001 §7, §13: preStop within the grace period, what is left of it for the stop, at least 2 s.
func TestGracefulStop(t *testing.T) {
	w := newWorld(t, nil)
	var ran []string
	w.runtime.OnExec = func(_ context.Context, _ *critest.Container, command []string) (int32, string) {
		ran = append(ran, strings.Join(command, " "))
		return 0, ""
	}
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye", "now"}}}}
	}))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	c := w.runtime.Find("p", "main")
	w.deleteGracefully("p", 300)
	w.eventually("gone", func() bool { return w.get("p") == nil })
	if !slices.Equal(ran, []string{"bye now"}) {
		t.Fatalf("hooks %v", ran)
	}
	if c.StopGrace < 180 || c.StopGrace > 300 { // by however long the hook took
		t.Fatalf("stopped with %d s", c.StopGrace)
	}
	w.eventually("the event", func() bool { return w.hasEvent("Killing: Stopping container main") })
}

// TestForce: 001 §13, S32: an object that vanishes has its containers stopped and removed.
func TestForce(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("p", nil))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("removed from the runtime", func() bool {
		w.runtime.Lock()
		defer w.runtime.Unlock()
		return len(w.runtime.Sandboxes) == 0
	})
}

// TestAdoption: a restart of the agent restarts no container of an untouched pod; orphans are removed.
func TestAdoption(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("stays", nil))
	w.create(newPod("goes", nil))
	w.eventually("running", func() bool { return w.phase("stays") == corev1.PodRunning && w.phase("goes") == corev1.PodRunning })
	id := w.runtime.Find("stays", "main").ID
	w.stop()
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := len(w.runtime.Called())
	w.start()
	w.eventually("orphan removed", func() bool { return w.runtime.Find("goes", "main") == nil })
	if c := w.runtime.Find("stays", "main"); c == nil || c.ID != id {
		t.Fatal("the container was replaced")
	}
	for _, call := range w.runtime.Called()[before:] {
		if strings.HasPrefix(call, "CreateContainer") || call == "RunPodSandbox" {
			t.Fatalf("after the restart: %v", w.runtime.Called()[before:])
		}
	}
	if s := w.get("stays").Status.ContainerStatuses[0]; s.RestartCount != 0 || s.State.Running == nil {
		t.Fatalf("status %+v", s)
	}
}

// TestTearDown: a torn down node has nothing left, and the next start makes the pods again from their objects.
func TestTearDown(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "m", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	}))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	w.stop()
	if err := w.agent.TearDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.runtime.Sandboxes) != 0 || len(w.runtime.Containers) != 0 {
		t.Fatal("the runtime still has the pod")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), w.root) {
		t.Fatal("something is still mounted")
	}
	w.start()
	w.eventually("running again", func() bool {
		c := w.runtime.Find("p", "main")
		return c != nil && w.phase("p") == corev1.PodRunning && w.get("p").Status.ContainerStatuses[0].ContainerID == "fake://"+c.ID
	})
}

// TestGracePeriods: a container gets what its pod asks for: at a tear-down up to the bound, and two seconds at least,
// also where a finalizer holds a pod that was deleted without a grace period.
func TestGracePeriods(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.ShutdownGracePeriod = 40 * time.Second })
	pods := map[string]struct{ grace, want int64 }{"short": {20, 20}, "long": {300, 40}, "none": {0, 2}}
	containers := map[string]*critest.Container{}
	for name, c := range pods {
		w.create(newPod(name, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &c.grace }))
	}
	w.create(newPod("forced", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/held"} }))
	for _, name := range []string{"short", "long", "none", "forced"} {
		w.eventually(name+" runs", func() bool { return w.phase(name) == corev1.PodRunning })
		containers[name] = w.runtime.Find(name, "main")
	}
	w.deleteGracefully("forced", 0)
	w.eventually("forced is stopped", func() bool { return !w.runtime.Running("forced", "main") })
	w.stop()
	if err := w.agent.TearDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := containers["forced"].StopGrace; got != 2 {
		t.Errorf("forced: stopped with %d s", got)
	}
	for name, c := range pods {
		if got := containers[name].StopGrace; got != c.want {
			t.Errorf("%s: stopped with %d s, want %d", name, got, c.want)
		}
	}
}

// TestWaitingReasons: what keeps a container from running is said in the kubelet's words.
func TestWaitingReasons(t *testing.T) {
	for _, c := range []struct {
		name    string
		pod     func(*corev1.Pod)
		runtime func(*critest.Runtime)
		reason  string
		message string
		event   string
	}{
		{
			"never-pull", func(p *corev1.Pod) {
				p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "other:1", corev1.PullNever
			}, nil,
			"ErrImageNeverPull", `Container image "other:1" is not present with pull policy of Never`, "ErrImageNeverPull: Container image",
		},
		{
			"pull-fails", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other:1" },
			func(r *critest.Runtime) {
				r.OnPull = func(string, *authConfig) error { return fmt.Errorf("no such repository") }
			},
			"ImagePullBackOff", `Back-off pulling image "other:1": ErrImagePull: no such repository`, `Failed: Failed to pull image "other:1": no such repository`,
		},
		{
			"bad-name", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "NOT A NAME" }, nil,
			"InvalidImageName", "", `InspectFailed: Failed to apply default image tag "NOT A NAME"`,
		},
		{
			"missing-configmap", func(p *corev1.Pod) {
				p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}
			}, nil, "CreateContainerConfigError", `configmap "none" not found`, "Failed: Error: configmap \"none\" not found",
		},
		{
			"root-refused", func(p *corev1.Pod) {
				yes, zero := true, int64(0)
				p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &zero}
			}, nil, "CreateContainerConfigError", "container's runAsUser breaks non-root policy", "",
		},
		{
			"create-fails", nil, func(r *critest.Runtime) {
				r.OnCreate = func(*containerConfig) error { return fmt.Errorf("cannot create") }
			}, "CreateContainerError", "cannot create", "Failed: Error: cannot create",
		},
		{
			"start-fails", nil, func(r *critest.Runtime) {
				r.OnStart = func(*critest.Container) error { return fmt.Errorf("no such file") }
			}, "RunContainerError", "no such file", "Failed: Error: no such file",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) { cfg.CrashBackOff, cfg.MaxCrashBackOff = time.Millisecond, time.Millisecond })
			if c.runtime != nil {
				w.runtime.Lock()
				c.runtime(w.runtime)
				w.runtime.Unlock()
			}
			w.create(newPod("p", c.pod))
			w.eventually("waiting: "+c.reason, func() bool {
				p := w.get("p")
				if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
					return false
				}
				s := p.Status.ContainerStatuses[0].State.Waiting
				return s.Reason == c.reason && strings.Contains(s.Message, c.message)
			})
			if c.event != "" {
				w.eventually("event "+c.event, func() bool { return w.hasEvent(c.event) })
			}
		})
	}
}

// TestAdmission: a pod that does not fit fails with the kubelet's reasons.
func TestAdmission(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxPods = 2 })
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	}))
	w.eventually("a runs", func() bool { return w.phase("a") == corev1.PodRunning })
	w.create(newPod("port", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	}))
	w.create(newPod("big", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *quantity("100000")}
	}))
	w.eventually("port refused", func() bool {
		p := w.get("port")
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "NodePorts" && strings.HasPrefix(p.Status.Message, "Pod was rejected: ")
	})
	w.eventually("big refused", func() bool {
		p := w.get("big")
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "OutOfcpu"
	})
	no := false
	w.create(newPod("users", func(p *corev1.Pod) { p.Spec.HostUsers = &no }))
	w.eventually("users refused before anything of it is made", func() bool {
		p := w.get("users")
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "UserNamespacesNotSupported" && w.hasEvent("Warning users UserNamespacesNotSupported: ") &&
			w.runtime.Find("users", "main") == nil
	})
	// Clients show why it was refused, not that its containers are being created.
	if p := w.get("big"); len(p.Status.ContainerStatuses) != 0 || conditionOf(p, corev1.PodReady) != nil || p.Status.StartTime == nil {
		t.Errorf("status of a refused pod: %+v", p.Status)
	}
	w.create(newPod("b", nil))
	w.eventually("b runs", func() bool { return w.phase("b") == corev1.PodRunning })
	w.create(newPod("c", nil))
	w.eventually("c refused", func() bool {
		p := w.get("c")
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "OutOfpods"
	})
}

// TestListenersAreKept: a pod does not get a host port that the kernel listens on, not by another spelling of the
// address, by its host network or from a sidecar, and not when it runs already as the agent starts.
func TestListenersAreKept(t *testing.T) {
	w := newWorld(t, nil)
	always := corev1.ContainerRestartPolicyAlways
	port := func(ip string, number int32, p corev1.Protocol) []corev1.ContainerPort {
		return []corev1.ContainerPort{{ContainerPort: number, HostPort: number, HostIP: ip, Protocol: p}}
	}
	w.create(newPod("early", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = port("", 6443, corev1.ProtocolTCP) }))
	w.eventually("runs while nobody listens", func() bool { return w.phase("early") == corev1.PodRunning })
	w.stop()
	w.cfg.Listening = listener.Set{{Owner: "the API server", Address: "0.0.0.0", Port: 6443}}
	w.start()
	thieves := map[string]func(*corev1.Pod){
		"early":    nil,
		"plain":    func(p *corev1.Pod) { p.Spec.Containers[0].Ports = port("", 6443, corev1.ProtocolTCP) },
		"loopback": func(p *corev1.Pod) { p.Spec.Containers[0].Ports = port("127.0.0.1", 6443, corev1.ProtocolTCP) },
		"noproto":  func(p *corev1.Pod) { p.Spec.Containers[0].Ports = port("", 6443, "") },
		"host": func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = port("", 6443, corev1.ProtocolTCP)
		},
		"sidecar": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "img:1", RestartPolicy: &always, Ports: port("", 6443, corev1.ProtocolTCP)}}
		},
	}
	for name, change := range thieves {
		if change != nil {
			w.create(newPod(name, change))
		}
	}
	w.create(newPod("udp", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = port("", 6443, corev1.ProtocolUDP) }))
	w.eventually("another protocol runs", func() bool { return w.phase("udp") == corev1.PodRunning })
	for name := range thieves {
		w.eventually(name+" is refused", func() bool {
			s := w.get(name).Status
			return s.Phase == corev1.PodFailed && s.Reason == "NodePorts" && strings.Contains(s.Message, "the API server listens on host port 6443")
		})
		w.eventually(name+" is not running", func() bool { return !w.runtime.Running(name, "main") })
		w.eventually(name+" event", func() bool { return w.hasEvent("Warning " + name + " NodePorts: ") })
	}
}

// TestProbes: 001 §11: startup gates the others, readiness sets Ready, liveness restarts.
func TestProbes(t *testing.T) {
	w := newWorld(t, nil)
	var mu sync.Mutex
	fails := map[string]bool{"ready": true, "start": true}
	w.runtime.OnExec = func(_ context.Context, _ *critest.Container, command []string) (int32, string) {
		mu.Lock()
		defer mu.Unlock()
		if fails[command[0]] {
			return 1, command[0] + " not ok"
		}
		return 0, ""
	}
	set := func(name string, fail bool) { mu.Lock(); defer mu.Unlock(); fails[name] = fail }
	probe := func(name string, threshold int32) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}, PeriodSeconds: 1, TimeoutSeconds: 60, SuccessThreshold: 1, FailureThreshold: threshold}
	}
	w.create(newPod("p", func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probe("start", 100), probe("ready", 1), probe("live", 1)
	}))
	w.eventually("runs, not started", func() bool {
		p := w.get("p")
		return p.Status.Phase == corev1.PodRunning && !ready(p) && p.Status.ContainerStatuses[0].Started != nil && !*p.Status.ContainerStatuses[0].Started
	})
	w.eventually("startup event", func() bool { return w.hasEvent("Unhealthy: Startup probe failed: start not ok") })
	set("start", false)
	w.eventually("started, not ready", func() bool { s := w.get("p").Status.ContainerStatuses[0]; return *s.Started && !s.Ready })
	w.eventually("readiness event", func() bool { return w.hasEvent("Unhealthy: Readiness probe failed: ready not ok") })
	set("ready", false)
	w.eventually("ready", func() bool { return ready(w.get("p")) })
	set("live", true)
	w.eventually("killed", func() bool { return w.hasEvent("Killing: Container main failed liveness probe, will be restarted") })
	set("live", false)
	w.eventually("restarted", func() bool { return w.get("p").Status.ContainerStatuses[0].RestartCount >= 1 })
}
