package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/container"
)

// retries is how often one round asks again when the answer is not success, before the round counts as failed.
const retries = 3

// worker runs one probe of one container name through the container's restarts.
type worker struct {
	m         *Manager
	key       key
	pod       *corev1.Pod
	container *corev1.Container
	probe     *corev1.Probe
	cancel    context.CancelFunc
	poke      chan struct{}

	id     string  // container being watched
	last   Outcome // of the previous round
	runs   int     // rounds in a row with that outcome
	onHold bool    // failed for good: wait for the next container
}

func (w *worker) period() time.Duration {
	if w.probe.PeriodSeconds <= 0 {
		return 10 * time.Second
	}
	return time.Duration(w.probe.PeriodSeconds) * time.Second
}

func (w *worker) run(ctx context.Context) {
	defer func() {
		w.cancel()
		w.m.mu.Lock()
		if w.m.workers[w.key] == w {
			delete(w.m.workers, w.key)
		}
		if w.id != "" {
			delete(w.m.results[w.key.kind], trimScheme(w.id))
		}
		w.m.mu.Unlock()
	}()
	period := w.period()
	// After an agent's restart many probes start together: spread those of containers that ran before.
	if status, ok := w.m.deps.Status(w.key.uid); ok && period > time.Since(w.m.start) {
		if s := find(&status, w.key.name); s != nil && s.State.Running != nil && s.State.Running.StartedAt.Time.Before(w.m.start.Truncate(time.Second)) {
			if !sleep(ctx, time.Duration(rand.Int64N(int64(period))), nil) {
				return
			}
		}
	}
	for w.round(ctx) {
		if !sleep(ctx, period, w.poke) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration, poke <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-poke:
	}
	return true
}

func find(status *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// round probes once and records the result; it answers whether to go on.
func (w *worker) round(ctx context.Context) bool {
	status, ok := w.m.deps.Status(w.key.uid)
	if !ok {
		return true
	}
	if status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
		return false
	}
	s := find(&status, w.key.name)
	if s == nil || s.ContainerID == "" {
		return true
	}
	if w.id != s.ContainerID {
		w.adopt(s)
	}
	if w.onHold {
		return true
	}
	if s.State.Running == nil {
		w.m.conclude(w.key.kind, w.id, false, w.key.uid, true)
		return s.State.Terminated == nil || container.RestartPolicy(w.pod, w.container) != corev1.RestartPolicyNever
	}
	if time.Since(s.State.Running.StartedAt.Time) < time.Duration(w.probe.InitialDelaySeconds)*time.Second {
		return true
	}
	started := s.Started != nil && *s.Started
	if !started && w.container.StartupProbe != nil {
		if ok, known := w.m.Result(Startup, w.id); known && ok {
			started = true
		}
	}
	if started == (w.key.kind == Startup) {
		return true // startup is over, or the others must wait for it
	}
	outcome, message := w.ask(ctx, status.PodIP)
	if ctx.Err() != nil {
		return false
	}
	if outcome == Unknown {
		return true
	}
	if outcome == Warning {
		w.event("ProbeWarning", fmt.Sprintf("%s probe warning: %s", w.key.kind, message))
		outcome = Success
	}
	if outcome == Failure {
		w.event("Unhealthy", fmt.Sprintf("%s probe failed: %s", w.key.kind, message))
	}
	if outcome == w.last {
		w.runs++
	} else {
		w.last, w.runs = outcome, 1
	}
	if (outcome == Failure && w.runs < int(max(w.probe.FailureThreshold, 1))) ||
		(outcome == Success && w.runs < int(max(w.probe.SuccessThreshold, 1))) {
		return true
	}
	w.m.conclude(w.key.kind, w.id, outcome == Success, w.key.uid, false)
	if (w.key.kind == Liveness && outcome == Failure) || w.key.kind == Startup {
		w.onHold = true
		w.runs = 0
	}
	return true
}

// adopt begins with a new container. A container that ran before the agent started keeps its standing until a probe
// says otherwise, so that a restart of the agent makes nothing unready.
func (w *worker) adopt(s *corev1.ContainerStatus) {
	if w.id != "" {
		w.m.forget(w.key.kind, w.id)
	}
	w.id, w.onHold, w.last, w.runs = s.ContainerID, false, Unknown, 0
	ranBefore := s.State.Running != nil && s.State.Running.StartedAt.Time.Before(w.m.start.Add(-time.Second))
	switch w.key.kind {
	case Liveness:
		w.m.conclude(Liveness, w.id, true, w.key.uid, true)
	case Readiness:
		w.m.conclude(Readiness, w.id, ranBefore && s.Ready, w.key.uid, true)
	case Startup:
		if ranBefore && s.Started != nil && *s.Started {
			w.m.conclude(Startup, w.id, true, w.key.uid, true)
		}
	}
}

func (w *worker) ask(ctx context.Context, podIP string) (Outcome, string) {
	if w.m.deps.Simulated && w.probe.Exec == nil {
		return Success, ""
	}
	var outcome Outcome
	var message string
	for range retries {
		var err error
		outcome, message, err = attempt(ctx, w.m.deps.Exec, w.probe, w.container, trimScheme(w.id), podIP)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return Unknown, ""
		}
		outcome, message = Unknown, err.Error()
	}
	if outcome == Unknown && message != "" {
		w.event("Unhealthy", fmt.Sprintf("%s probe errored and resulted in %s state: %s", w.key.kind, "Unknown", message))
	}
	return outcome, message
}

func (w *worker) event(reason, message string) {
	const maxMessage = 1024
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	w.m.deps.Event(w.pod, w.key.name, corev1.EventTypeWarning, reason, message)
}

// trimScheme makes the runtime's id of a container id in the API (containerd://…).
func trimScheme(id string) string {
	for i := 0; i+2 < len(id); i++ {
		if id[i:i+3] == "://" {
			return id[i+3:]
		}
	}
	return id
}
