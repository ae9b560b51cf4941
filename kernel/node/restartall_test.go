package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestRestartAllContainers: KEP-5532: a container that ends with a code of its rule has the whole pod begin anew, with its
// init containers, in the sandbox that it has; other codes do not.
func TestRestartAllContainers(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.CrashBackOff, cfg.MaxCrashBackOff = time.Hour, time.Hour })
	never := corev1.ContainerRestartPolicyNever
	rule := func(action corev1.ContainerRestartRuleAction, code int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code}}}
	}
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		main := *p.Spec.Containers[0].DeepCopy()
		init, other := *main.DeepCopy(), *main.DeepCopy()
		init.Name, other.Name = "init", "other"
		main.RestartPolicy = &never
		// The first rule that matches decides.
		main.RestartPolicyRules = []corev1.ContainerRestartRule{rule(corev1.ContainerRestartRuleActionRestartAllContainers, 42), rule(corev1.ContainerRestartRuleActionRestart, 42)}
		p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{init}, []corev1.Container{main, other}
	}))
	initialize := func(when string) {
		t.Helper()
		w.eventually("init "+when, func() bool { return w.runtime.Running("p", "init") })
		w.runtime.Exit(w.runtime.Find("p", "init").ID, 0)
		w.eventually("running "+when, func() bool {
			return w.runtime.Running("p", "main") && w.runtime.Running("p", "other") && w.phase("p") == corev1.PodRunning
		})
	}
	initialize("at first")
	before := w.runtime.Find("p", "other").ID
	calls := len(w.runtime.Called())
	w.runtime.Exit(w.runtime.Find("p", "main").ID, 42)
	initialize("again")
	did := w.runtime.Called()[calls:]
	if w.runtime.Find("p", "other").ID == before || slices.Contains(did, "RunPodSandbox") || slices.Contains(did, "StopPodSandbox") {
		t.Errorf("calls %v", did)
	}
	w.eventually("counted, and over", func() bool {
		p := w.get("p")
		c := conditionOf(p, corev1.AllContainersRestarting)
		ok := c != nil && c.Status == corev1.ConditionFalse
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			ok = ok && s.RestartCount == 1
		}
		return ok
	})
	w.eventually("event", func() bool {
		return w.hasEvent("Killing: Container other is restarted with all containers of the pod")
	})
	// Not without end at once: the second time in a row waits, and the others go on.
	before = w.runtime.Find("p", "other").ID
	w.runtime.Exit(w.runtime.Find("p", "main").ID, 42)
	w.eventually("back-off", func() bool {
		for _, s := range w.get("p").Status.ContainerStatuses {
			if s.Name == "main" && s.State.Waiting != nil {
				return s.State.Waiting.Reason == "CrashLoopBackOff" && strings.Contains(s.State.Waiting.Message, "restarting all containers")
			}
		}
		return false
	})
	if w.runtime.Find("p", "other").ID != before || !w.runtime.Running("p", "other") || w.phase("p") == corev1.PodFailed {
		t.Errorf("phase %s, other runs: %t", w.phase("p"), w.runtime.Running("p", "other"))
	}
	// Another code is the restart policy's.
	w.create(newPod("q", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].RestartPolicy = &never
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{rule(corev1.ContainerRestartRuleActionRestartAllContainers, 42)}
	}))
	w.eventually("q runs", func() bool { return w.phase("q") == corev1.PodRunning })
	w.runtime.Exit(w.runtime.Find("q", "main").ID, 41)
	w.eventually("q failed", func() bool { return w.phase("q") == corev1.PodFailed })
}
