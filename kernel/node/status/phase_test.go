package status

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// TestGenerate: 001 §8, §10: phase and conditions by container states: w waits, r runs, 0 … exited with that code.
func TestGenerate(t *testing.T) {
	for _, c := range []struct {
		name        string
		policy      corev1.RestartPolicy
		init, main  string
		previous    corev1.PodPhase
		terminating bool
		phase       corev1.PodPhase
		ready       string // reason of Ready, or "true"
		initialized string
	}{
		{"waits", "Always", "", "w", "", false, corev1.PodPending, "ContainersNotReady", "true"},
		{"runs", "Always", "", "r", "", false, corev1.PodRunning, "true", "true"},
		{"one waits", "Always", "", "r w", "", false, corev1.PodPending, "ContainersNotReady", "true"},
		{"one ended, will start again", "Always", "", "r 1", "", false, corev1.PodRunning, "ContainersNotReady", "true"},
		{"all ended, will start again", "Always", "", "0 1", "", false, corev1.PodRunning, "ContainersNotReady", "true"},
		{"succeeded", "OnFailure", "", "0 0", "", false, corev1.PodSucceeded, "PodCompleted", "true"},
		{"failed once, on failure", "OnFailure", "", "0 1", "", false, corev1.PodRunning, "ContainersNotReady", "true"},
		{"failed", "Never", "", "0 1", "", false, corev1.PodFailed, "PodFailed", "true"},
		{"one still runs", "Never", "", "0 r", "", false, corev1.PodRunning, "ContainersNotReady", "true"},
		{"init runs", "Always", "r", "w", "", false, corev1.PodPending, "ContainersNotReady", "ContainersNotInitialized"},
		{"init failed, again", "Always", "1", "w", "", false, corev1.PodPending, "ContainersNotReady", "ContainersNotInitialized"},
		{"init failed for good", "Never", "1", "w", "", false, corev1.PodFailed, "PodFailed", "ContainersNotInitialized"},
		{"init done", "Always", "0", "r", "", false, corev1.PodRunning, "true", "true"},
		{"init runs again in a new sandbox", "Always", "r", "1", corev1.PodRunning, false, corev1.PodPending, "ContainersNotReady", "true"},
		{"deleted while running", "Always", "", "143", "", true, corev1.PodFailed, "PodFailed", "true"},
		{"deleted, ended well", "Always", "", "0", "", true, corev1.PodSucceeded, "PodCompleted", "true"},
		{"stays failed", "Always", "", "r", corev1.PodFailed, false, corev1.PodFailed, "PodFailed", "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.policy}}
			rt := &cri.PodStatus{IPs: []string{"10.0.0.2"}, Sandboxes: []*runtimeapi.PodSandboxStatus{{State: runtimeapi.PodSandboxState_SANDBOX_READY}}}
			add := func(prefix, states string) (list []corev1.Container) {
				for i, s := range strings.Fields(states) {
					name := prefix + string(rune('a'+i))
					list = append(list, corev1.Container{Name: name})
					ct := &cri.Container{ID: name, Name: name}
					switch s {
					case "w":
						continue
					case "r":
						ct.State = runtimeapi.ContainerState_CONTAINER_RUNNING
					default:
						ct.State = runtimeapi.ContainerState_CONTAINER_EXITED
						for _, d := range s {
							ct.ExitCode = ct.ExitCode*10 + int32(d-'0')
						}
					}
					rt.Containers = append(rt.Containers, ct)
				}
				return list
			}
			pod.Spec.InitContainers, pod.Spec.Containers = add("i", c.init), add("m", c.main)
			yes := func(*corev1.Container, string) bool { return true }
			s := Generate(Input{Pod: pod, Runtime: rt, Previous: corev1.PodStatus{Phase: c.previous}, RuntimeName: "x", Started: yes, Ready: yes,
				Waiting: func(string) (Waiting, bool) { return Waiting{}, false }, HostIPs: []string{"1.1.1.1"}, Terminating: c.terminating, Now: time.Unix(1, 0)})
			if s.Phase != c.phase {
				t.Errorf("phase %s, want %s", s.Phase, c.phase)
			}
			for kind, want := range map[corev1.PodConditionType]string{corev1.PodReady: c.ready, corev1.PodInitialized: c.initialized} {
				cond := findCondition(s.Conditions, kind)
				got := cond.Reason
				if cond.Status == corev1.ConditionTrue {
					got = "true"
				}
				if got != want {
					t.Errorf("%s: %s, want %s", kind, got, want)
				}
			}
			if s.PodIP != "10.0.0.2" || s.HostIP != "1.1.1.1" || findCondition(s.Conditions, corev1.PodReadyToStartContainers).Status != corev1.ConditionTrue {
				t.Errorf("addresses %+v", s)
			}
		})
	}
}

// TestGenerateEphemeral: 001 §8: an ephemeral container that runs is neither started nor ready, as a kubelet
// says it, and the pod's readiness does not depend on it.
func TestGenerateEphemeral(t *testing.T) {
	yes := func(*corev1.Container, string) bool { return true }
	running := func(name string) *cri.Container {
		return &cri.Container{ID: name, Name: name, State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:          []corev1.Container{{Name: "main"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}, {EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "absent"}}},
	}}
	s := Generate(Input{
		Pod: pod, Runtime: &cri.PodStatus{Containers: []*cri.Container{running("main"), running("debugger")}},
		RuntimeName: "x", Started: yes, Ready: yes, Waiting: func(string) (Waiting, bool) { return Waiting{}, false }, Now: time.Unix(1, 0),
	})
	if len(s.EphemeralContainerStatuses) != 2 || s.EphemeralContainerStatuses[1].State.Running == nil {
		t.Fatalf("statuses %+v", s.EphemeralContainerStatuses)
	}
	for _, c := range s.EphemeralContainerStatuses {
		if c.Ready || c.Started != nil {
			t.Errorf("%s: ready %v, started %v", c.Name, c.Ready, c.Started)
		}
	}
	if c := findCondition(s.Conditions, corev1.PodReady); c.Status != corev1.ConditionTrue {
		t.Errorf("Ready %s: %s", c.Status, c.Message)
	}
}

// TestMerge: conditions of others, nominations and ended phases in the API are kept.
func TestMerge(t *testing.T) {
	api := corev1.PodStatus{Phase: corev1.PodFailed, NominatedNodeName: "n", Conditions: []corev1.PodCondition{{Type: "theirs", Status: "True"}, {Type: corev1.PodReady, Status: "True"}, {Type: corev1.PodScheduled, Status: "True"}}}
	mine := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: "theirs", Status: "False"}, {Type: corev1.PodReady, Status: "False"}, {Type: corev1.PodScheduled, Status: "False"}}}
	got := merge(api, mine)
	for kind, want := range map[corev1.PodConditionType]corev1.ConditionStatus{"theirs": "True", corev1.PodReady: "False", corev1.PodScheduled: "True"} {
		if c := findCondition(got.Conditions, kind); c == nil || c.Status != want {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if got.Phase != corev1.PodFailed || got.NominatedNodeName != "n" || len(got.Conditions) != 3 {
		t.Errorf("%+v", got)
	}
}
