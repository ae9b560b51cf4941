package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

type fixed map[string]bool // "live <id>" or "start <id>" → result

func (f fixed) startup(id string) (bool, bool)  { ok, known := f["start "+id]; return ok, known }
func (f fixed) liveness(id string) (bool, bool) { ok, known := f["live "+id]; return ok, known }

// TestCompute: 001 §9, §14, §15: what one round does, by what the runtime has. Containers are written
// name=state, with r running, 0 … exited with that code, u unknown, c created.
func TestCompute(t *testing.T) {
	for _, c := range []struct {
		name         string
		init         string // names; a trailing * is a sidecar
		main         string
		policy       corev1.RestartPolicy
		sandbox      string // "", ready, dead
		have         string
		probes       fixed
		wantKillPod  bool
		wantSandbox  bool
		wantInit     string
		wantMain     string
		wantKills    string
		changedImage bool
	}{
		{name: "new pod", main: "a b", wantKillPod: true, wantSandbox: true, wantMain: "a b"},
		{name: "new pod with init", init: "i j", main: "a", wantKillPod: true, wantSandbox: true, wantInit: "i"},
		{name: "all runs", main: "a b", sandbox: "ready", have: "a=r b=r"},
		{name: "one ended", main: "a b", sandbox: "ready", have: "a=r b=1", wantMain: "b"},
		{name: "one ended, never", main: "a b", policy: corev1.RestartPolicyNever, sandbox: "ready", have: "a=r b=1"},
		{name: "all ended, never: stop the rest", main: "a b", policy: corev1.RestartPolicyNever, sandbox: "ready", have: "a=0 b=1", wantKillPod: true},
		{name: "on failure", main: "a b", policy: corev1.RestartPolicyOnFailure, sandbox: "ready", have: "a=0 b=1", wantMain: "b"},
		{name: "init runs", init: "i j", main: "a", sandbox: "ready", have: "i=r"},
		{name: "init done, next", init: "i j", main: "a", sandbox: "ready", have: "i=0", wantInit: "j"},
		{name: "all init done", init: "i j", main: "a", sandbox: "ready", have: "i=0 j=0", wantMain: "a"},
		{name: "init failed, again", init: "i", main: "a", sandbox: "ready", have: "i=1", wantInit: "i"},
		{name: "init failed, never", init: "i", main: "a", policy: corev1.RestartPolicyNever, sandbox: "ready", have: "i=1", wantKillPod: true},
		{name: "init record lost, main runs", init: "i", main: "a", sandbox: "ready", have: "a=r"},
		{name: "sidecar started, next", init: "s* j", main: "a", sandbox: "ready", have: "s=r", wantInit: "j"},
		{name: "sidecar not started", init: "s*? j", main: "a", sandbox: "ready", have: "s=r"},
		{name: "sidecar last", init: "s*", main: "a", sandbox: "ready", have: "s=r", wantMain: "a"},
		{name: "sidecar died", init: "s*", main: "a", sandbox: "ready", have: "s=1 a=r", wantInit: "s"},
		{name: "sidecar died, never", init: "s*", main: "a", policy: corev1.RestartPolicyNever, sandbox: "ready", have: "s=0 a=r", wantInit: "s"},
		{name: "main ended: sidecars are stopped", init: "s*", main: "a", policy: corev1.RestartPolicyNever, sandbox: "ready", have: "s=r a=0", wantKillPod: true},
		{name: "sandbox died", main: "a", sandbox: "dead", have: "a=137", wantKillPod: true, wantSandbox: true, wantMain: "a"},
		{name: "sandbox died, init again", init: "i", main: "a", sandbox: "dead", have: "i=0 a=137", wantKillPod: true, wantSandbox: true, wantInit: "i"},
		{name: "sandbox died, never", main: "a", policy: corev1.RestartPolicyNever, sandbox: "dead", have: "a=137", wantKillPod: true},
		{name: "sandbox died, all succeeded", main: "a", policy: corev1.RestartPolicyOnFailure, sandbox: "dead", have: "a=0", wantKillPod: true},
		{name: "liveness failed", main: "a", sandbox: "ready", have: "a=r", probes: fixed{"live id-a": false}, wantMain: "a", wantKills: "Container a failed liveness probe, will be restarted"},
		{name: "liveness failed, never", main: "a b", policy: corev1.RestartPolicyNever, sandbox: "ready", have: "a=r b=r", probes: fixed{"live id-a": false}, wantKills: "Container a failed liveness probe"},
		{name: "startup failed", main: "a", sandbox: "ready", have: "a=r", probes: fixed{"start id-a": false}, wantMain: "a", wantKills: "Container a failed startup probe, will be restarted"},
		{name: "image changed", main: "a", sandbox: "ready", have: "a=r", changedImage: true, wantMain: "a", wantKills: "Container a definition changed, will be restarted"},
		{name: "unknown", main: "a", sandbox: "ready", have: "a=u", wantMain: "a", wantKills: `Container is in "unknown" state, try killing it before restart`},
		{name: "created only", main: "a", sandbox: "ready", have: "a=c", wantMain: "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.policy == "" {
				c.policy = corev1.RestartPolicyAlways
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.policy}}
			always := corev1.ContainerRestartPolicyAlways
			for _, n := range strings.Fields(c.init) {
				ct := corev1.Container{Name: strings.TrimRight(n, "*?")}
				if strings.Contains(n, "*") {
					ct.RestartPolicy = &always
				}
				if strings.HasSuffix(n, "?") {
					ct.StartupProbe = &corev1.Probe{}
				}
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, ct)
			}
			for _, n := range strings.Fields(c.main) {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: n})
			}
			rt := &cri.PodStatus{}
			if c.sandbox != "" {
				state := runtimeapi.PodSandboxState_SANDBOX_READY
				if c.sandbox == "dead" {
					state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
				}
				rt.Sandboxes = []*runtimeapi.PodSandboxStatus{{Id: "s", State: state, Metadata: &runtimeapi.PodSandboxMetadata{}, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "1.2.3.4"}}}
			}
			for _, h := range strings.Fields(c.have) {
				n, state, _ := strings.Cut(h, "=")
				ct := &cri.Container{ID: "id-" + n, Name: n, SandboxID: "s", Hash: cri.HashContainer(&corev1.Container{Name: n})}
				if c.changedImage {
					ct.Hash++
				}
				switch state {
				case "r":
					ct.State = runtimeapi.ContainerState_CONTAINER_RUNNING
				case "u":
					ct.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
				case "c":
					ct.State = runtimeapi.ContainerState_CONTAINER_CREATED
				default:
					ct.State = runtimeapi.ContainerState_CONTAINER_EXITED
					if _, err := fmt.Sscan(state, &ct.ExitCode); err != nil {
						t.Fatal(err)
					}
				}
				rt.Containers = append(rt.Containers, ct)
			}
			got := compute(pod, rt, c.probes)
			names := func(list []*corev1.Container) string {
				var out []string
				for _, c := range list {
					out = append(out, c.Name)
				}
				return strings.Join(out, " ")
			}
			var kills []string
			for _, k := range got.kills {
				kills = append(kills, k.message)
			}
			if got.killPod != c.wantKillPod || got.sandbox != c.wantSandbox || names(got.init) != c.wantInit || names(got.main) != c.wantMain || strings.Join(kills, "|") != c.wantKills {
				t.Fatalf("killPod %v sandbox %v init %q main %q kills %q", got.killPod, got.sandbox, names(got.init), names(got.main), kills)
			}
		})
	}
}

// TestTerminationMessage: the file wins; the log's end is used only for failures that ask for it.
func TestTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	log := write("log", "2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:01Z stderr P tw\n2026-01-01T00:00:01Z stderr F o\n")
	for _, c := range []struct {
		name string
		ct   cri.Container
		want string
	}{
		{"file", cri.Container{MessageFile: write("m", "last"), LogPath: log, MessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, ExitCode: 1}, "last"},
		{"empty file, log", cri.Container{MessageFile: write("e", ""), LogPath: log, MessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, ExitCode: 1}, "one\ntwo\n"},
		{"success does not fall back", cri.Container{LogPath: log, MessagePolicy: corev1.TerminationMessageFallbackToLogsOnError}, ""},
		{"policy File does not fall back", cri.Container{LogPath: log, MessagePolicy: corev1.TerminationMessageReadFile, ExitCode: 1}, ""},
		{"too long keeps the end", cri.Container{MessageFile: write("l", strings.Repeat("x", 5000)+"end")}, strings.Repeat("x", 4093) + "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := terminationMessage(&c.ct); got != c.want {
				t.Fatalf("%q", got)
			}
		})
	}
}

func FuzzLogMessage(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:00Z stdout F one\n"))
	f.Add([]byte("a b P\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(logMessage(data)) > 3*maxMessageLog {
			t.Fatal("longer than allowed")
		}
	})
}

// TestGrace: 001 §13: which number holds.
func TestGrace(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	spec := &corev1.Container{LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: n(5)}}
	for _, c := range []struct {
		name   string
		pod    corev1.Pod
		ct     cri.Container
		reason killReason
		want   time.Duration
	}{
		{"deletion wins", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: n(7)}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: n(30)}}, cri.Container{}, killLiveness, 7 * time.Second},
		{"probe's own", corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: n(30)}}, cri.Container{}, killLiveness, 5 * time.Second},
		{"pod's", corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: n(30)}}, cri.Container{}, killOther, 30 * time.Second},
		{"written on the container", corev1.Pod{}, cri.Container{TerminateGrace: n(9)}, killOther, 9 * time.Second},
	} {
		if got := grace(&c.pod, spec, &c.ct, c.reason); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
