package node

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri/critest"
)

// TestRoomIsFreeWhenItIsTold: schedulers give the room of a pod away when its phase is terminal, so that phase is told
// when the node has stopped the pod and not before; the next pod is then admitted.
func TestRoomIsFreeWhenItIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		end    func(*world)
	}{
		{"it ends", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, func(w *world) {}},
		// A victim of preemption that waits for its next try has nothing left to stop but its sandbox.
		{"it is deleted in back-off", nil, func(w *world) { w.deleteGracefully("p", 30) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) { cfg.MaxPods, cfg.CrashBackOff, cfg.MaxCrashBackOff = 1, time.Hour, time.Hour })
			var stops atomic.Int32
			var may atomic.Bool
			w.runtime.Lock()
			w.runtime.OnStopSandbox = func(*critest.Sandbox) error {
				if stops.Add(1); !may.Load() {
					return errors.New("not yet")
				}
				return nil
			}
			w.runtime.Unlock()
			w.create(newPod("p", c.change))
			w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
			for range 2 { // the first restart is at once
				container := w.runtime.Find("p", "main")
				w.runtime.Exit(container.ID, 0)
				if w.get("p").Spec.RestartPolicy == corev1.RestartPolicyNever {
					break
				}
				w.eventually("restarted, or in back-off", func() bool {
					s := w.get("p").Status.ContainerStatuses[0]
					return s.RestartCount == 1 && s.State.Running != nil || s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
				})
			}
			c.end(w)
			w.eventually("two tries to stop the sandbox", func() bool { return stops.Load() >= 2 && w.hasEvent("FailedKillPod") })
			if p := w.get("p"); p == nil || p.Status.Phase != corev1.PodRunning {
				t.Fatalf("before its sandbox is stopped: %v", w.phase("p"))
			}
			may.Store(true)
			w.eventually("ended", func() bool {
				phase := w.phase("p")
				return phase == "" || phase == corev1.PodSucceeded || phase == corev1.PodFailed
			})
			w.create(newPod("next", nil))
			w.eventually("next is admitted or not", func() bool { return w.phase("next") == corev1.PodRunning || w.phase("next") == corev1.PodFailed })
			if p := w.get("next"); p.Status.Phase != corev1.PodRunning {
				t.Errorf("next: %s %s", p.Status.Reason, p.Status.Message)
			}
		})
	}
}

// TestRoomOfTheForced: a pod that was deleted by force and still runs has no room, since the scheduler gives it to the
// next one: each that is refused would be made anew.
func TestRoomOfTheForced(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.MaxPods = 1 })
	var stops atomic.Int32
	var may atomic.Bool
	w.runtime.Lock()
	w.runtime.OnStopSandbox = func(*critest.Sandbox) error {
		if stops.Add(1); !may.Load() {
			return errors.New("not yet")
		}
		return nil
	}
	w.runtime.Unlock()
	w.create(newPod("p", nil))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("two tries to stop the sandbox", func() bool { return stops.Load() >= 2 })
	w.create(newPod("next", nil))
	w.eventually("next is admitted or not", func() bool { return w.phase("next") == corev1.PodRunning || w.phase("next") == corev1.PodFailed })
	if p := w.get("next"); p.Status.Phase != corev1.PodRunning {
		t.Errorf("next: %s %s", p.Status.Reason, p.Status.Message)
	}
	may.Store(true)
	w.eventually("p is removed from the runtime", func() bool { return w.runtime.Find("p", "main") == nil })
}

// TestNoSeccomp: where the runtime has no seccomp, a container with the profile RuntimeDefault does not start, whoever
// gave it the profile, unless that is waived. Pods that find out at the same time fare alike.
func TestNoSeccomp(t *testing.T) {
	for _, c := range []struct {
		name              string
		byDefault, waived bool
		profile           corev1.SeccompProfileType
		want              corev1.PodPhase
	}{
		{"no profile", false, false, "", corev1.PodRunning},
		{"unconfined by its own word", true, false, corev1.SeccompProfileTypeUnconfined, corev1.PodRunning},
		{"asked for", false, false, corev1.SeccompProfileTypeRuntimeDefault, corev1.PodPending},
		{"by default", true, false, "", corev1.PodPending},
		{"waived", true, true, corev1.SeccompProfileTypeRuntimeDefault, corev1.PodRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) { cfg.SeccompDefault, cfg.SeccompWaived = c.byDefault, c.waived })
			w.runtime.Lock()
			w.runtime.OnSandbox = func(c *runtimeapi.PodSandboxConfig) error {
				if p := c.GetLinux().GetSecurityContext().GetSeccomp(); p.GetProfileType() == runtimeapi.SecurityProfile_RuntimeDefault {
					return errors.New("config provided but seccomp not supported")
				}
				return nil
			}
			w.runtime.Unlock()
			names := strings.Fields("a b c d e f g h")
			for _, name := range names {
				w.create(newPod(name, func(p *corev1.Pod) {
					if c.profile != "" {
						p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: c.profile}}
					}
				}))
			}
			for _, name := range names {
				w.eventually(name+" is "+string(c.want), func() bool {
					p := w.get(name)
					if c.want == corev1.PodRunning {
						return p.Status.Phase == c.want
					}
					s := p.Status.ContainerStatuses
					return p.Status.Phase == c.want && len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerError" &&
						strings.HasPrefix(s[0].State.Waiting.Message, "seccomp profile RuntimeDefault cannot be applied")
				})
			}
			if c.waived {
				w.eventually("event", func() bool { return w.hasEvent("SeccompUnavailable") })
			}
			if w.hasEvent("FailedCreatePodSandBox") {
				t.Error(strings.Join(w.events(), "\n"))
			}
		})
	}
}

// TestEvictedForTheNode: 1.36: a pod that is ended for the node's sake carries the condition by which controllers know it.
func TestEvictedForTheNode(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("p", nil))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	w.stop()
	a, err := New(w.cfg, Deps{Client: w.client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	w.eventually("taken over", func() bool { return r.parts.pods.Known("uid-p") })
	r.parts.pods.Evict("uid-p", "The node was low on resource: memory. ")
	w.eventually("evicted", func() bool { return w.phase("p") == corev1.PodFailed })
	s := w.get("p").Status
	c := conditionOf(w.get("p"), corev1.DisruptionTarget)
	if s.Reason != "Evicted" || c == nil || c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonTerminationByKubelet || c.Message != s.Message {
		t.Errorf("status %s %q, condition %+v", s.Reason, s.Message, c)
	}
}
