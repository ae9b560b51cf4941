package node

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/node/cri/critest"
)

// TestPostStartFails: 001 §7: a hook that fails kills its container, and says which command failed and how.
func TestPostStartFails(t *testing.T) {
	w := newWorld(t, nil)
	w.runtime.Lock()
	w.runtime.OnExec = func(context.Context, *critest.Container, []string) (int32, string) { return 126, "not found" }
	w.runtime.Unlock()
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"badcommand"}}}}
	}))
	w.eventually("events", func() bool {
		return w.hasEvent("FailedPostStartHook: PostStartHook failed") && w.hasEvent("Killing: FailedPostStartHook")
	})
	const want = `Exec lifecycle hook ([badcommand]) for Container "main" in Pod "p_default(uid-p)" failed - error: command 'badcommand' exited with 126: , message: "not found"`
	w.eventually("waiting message", func() bool {
		s := w.get("p").Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && (s[0].State.Waiting.Reason == "CrashLoopBackOff" || s[0].State.Waiting.Reason == "PostStartHookError" && s[0].State.Waiting.Message == want)
	})
}

// TestDeadline: 001 §14: activeDeadlineSeconds ends a pod that runs normally.
func TestDeadline(t *testing.T) {
	w := newWorld(t, nil)
	one := int64(1)
	w.create(newPod("p", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &one }))
	w.eventually("failed by its deadline", func() bool {
		p := w.get("p")
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "DeadlineExceeded" && p.Status.Message == "Pod was active on the node longer than the specified deadline"
	})
	if c := w.runtime.Find("p", "main"); c != nil && c.Status.State.String() == "CONTAINER_RUNNING" {
		t.Fatal("the container still runs")
	}
}

// TestFailedMount: 002 §20: no container starts before every volume is there; it starts when the object appears.
func TestFailedMount(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}))
	w.eventually("event", func() bool {
		return w.hasEvent(`FailedMount: MountVolume.SetUp failed for volume "v" : configmap "late" not found`)
	})
	for _, call := range w.runtime.Called() {
		if strings.HasPrefix(call, "StartContainer") || call == "RunPodSandbox" {
			t.Fatalf("started without its volume: %v", w.runtime.Called())
		}
	}
	cm := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
	cm.Name, cm.Namespace = "late", "default"
	if _, err := w.client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, createOptions); err != nil {
		t.Fatal(err)
	}
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
}

// TestLabelsOutdated: a pod that was placed because of a label that the agent has not seen yet is admitted.
func TestLabelsOutdated(t *testing.T) {
	w := newWorld(t, nil)
	node, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Labels["disk"] = "fast"
	if _, err := w.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.create(newPod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	w.create(newPod("q", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "slow"} }))
	w.eventually("rejected", func() bool { return w.phase("q") == corev1.PodFailed && w.get("q").Status.Reason == "NodeAffinity" })
}

// TestSandboxDies: a sandbox that ended is made again, with its containers (SandboxChanged).
func TestSandboxDies(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("p", nil))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	old := w.runtime.Find("p", "main")
	w.runtime.Lock()
	w.runtime.Sandboxes[old.SandboxID].Status.State = 1 // SANDBOX_NOTREADY
	w.runtime.Unlock()
	w.runtime.Exit(old.ID, 137)
	w.eventually("new container", func() bool {
		c := w.runtime.Find("p", "main")
		return c != nil && c.ID != old.ID && c.SandboxID != old.SandboxID
	})
	w.eventually("event", func() bool {
		return w.hasEvent("SandboxChanged: Pod sandbox changed, it will be killed and re-created.")
	})
	w.eventually("counted", func() bool {
		s := w.get("p").Status.ContainerStatuses[0]
		return s.RestartCount == 1 && s.State.Running != nil
	})
}
