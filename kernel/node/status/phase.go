package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
)

// exit is the exit code of a container that is not running, or ran before it waits again.
func exit(s *corev1.ContainerStatus) (code int32, ended bool) {
	switch {
	case s.State.Terminated != nil:
		return s.State.Terminated.ExitCode, true
	case s.State.Waiting != nil && s.LastTerminationState.Terminated != nil:
		return s.LastTerminationState.Terminated.ExitCode, true
	}
	return 0, false
}

// phase sums the container states up: Pending until every init container is through and every main container was
// created, Running while one runs or will run again, Succeeded or Failed when all ended for good.
func phase(pod *corev1.Pod, all []corev1.ContainerStatus, isTerminal, mainStarted bool) corev1.PodPhase {
	pending, pendingSidecar, initFailed := false, false, false
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s := findStatus(all, c.Name)
		if container.IsSidecar(c) {
			if s == nil || (s.State.Terminated == nil && s.LastTerminationState.Terminated == nil && (s.Started == nil || !*s.Started)) {
				pendingSidecar = true
			}
			continue
		}
		code, ended := int32(0), false
		if s != nil && s.State.Running == nil {
			code, ended = exit(s)
		}
		switch {
		case !ended:
			pending = true
		case code != 0 && !restartAfter(pod, c, code):
			initFailed = true
		case code != 0:
			pending = true
		}
	}
	running, waiting, stopped, succeeded, final, unknown := 0, 0, 0, 0, 0, 0
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s := findStatus(all, c.Name)
		if s == nil {
			unknown++
			continue
		}
		code, ended := exit(s)
		switch {
		case s.State.Running != nil:
			running++
		case ended:
			stopped++
			if code == 0 {
				succeeded++
			}
			if !restartAfter(pod, c, code) {
				final++
			}
		case s.State.Waiting != nil:
			waiting++
		default:
			unknown++
		}
	}
	switch {
	case initFailed:
		return corev1.PodFailed
	case isTerminal && running == 0 && stopped > 0 && waiting+unknown == 0:
		if succeeded == stopped {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	case isTerminal && running == 0:
		return corev1.PodFailed
	// A sidecar that begins anew beside main containers holds nothing up; init containers that run again, in a sandbox
	// that was remade, do.
	case pending, pendingSidecar && !mainStarted, waiting > 0:
		return corev1.PodPending
	case running > 0 && unknown == 0:
		return corev1.PodRunning
	case running == 0 && stopped > 0 && unknown == 0:
		if final < stopped {
			return corev1.PodRunning // some will be started again
		}
		if succeeded == stopped {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	}
	return corev1.PodPending
}

func (in *Input) conditions(s *corev1.PodStatus, all []corev1.ContainerStatus, rt *cri.PodStatus) {
	pod := in.Pod
	set := func(t corev1.PodConditionType, ok bool, reason, message string) {
		status := corev1.ConditionFalse
		if ok {
			status = corev1.ConditionTrue
		}
		now := metav1.NewTime(in.Now)
		for i := range s.Conditions {
			c := &s.Conditions[i]
			if c.Type != t {
				continue
			}
			if c.Status != status {
				c.LastTransitionTime = now
			}
			c.Status, c.Reason, c.Message, c.ObservedGeneration = status, reason, message, pod.Generation
			return
		}
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: now, ObservedGeneration: pod.Generation})
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress
	})
	s.Conditions = append(s.Conditions, in.Resize...)
	switch {
	case in.RestartingAll:
		set(corev1.AllContainersRestarting, true, "RestartAllContainersStarted", "container exited with restart policy rule")
	case mayRestartAll(pod):
		set(corev1.AllContainersRestarting, false, "", "")
	}
	if in.Disrupted != "" {
		set(corev1.DisruptionTarget, true, corev1.PodReasonTerminationByKubelet, in.Disrupted)
	}
	set(corev1.PodReadyToStartContainers, rt.ReadySandbox() != nil && (pod.Spec.HostNetwork || len(rt.IPs) > 0), "", "")

	// Initialized.
	var unknown, incomplete []string
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		cs := findStatus(all, c.Name)
		switch {
		case cs == nil:
			unknown = append(unknown, c.Name)
		case container.IsSidecar(c) && (cs.Started == nil || !*cs.Started), !container.IsSidecar(c) && !cs.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	switch message := describe(unknown, incomplete, "incomplete"); {
	case s.Phase == corev1.PodSucceeded && len(unknown) == 0:
		set(corev1.PodInitialized, true, "PodCompleted", "")
	case message == "" || anyStarted(s.ContainerStatuses):
		set(corev1.PodInitialized, true, "", "")
	default:
		set(corev1.PodInitialized, false, "ContainersNotInitialized", message)
	}

	// ContainersReady and Ready.
	unknown = nil
	var unready []string
	check := func(c *corev1.Container) {
		cs := findStatus(all, c.Name)
		switch {
		case cs == nil:
			unknown = append(unknown, c.Name)
		case !cs.Ready:
			unready = append(unready, c.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if container.IsSidecar(&pod.Spec.InitContainers[i]) {
			check(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		check(&pod.Spec.Containers[i])
	}
	ready, reason, message := true, "", describe(unknown, unready, "unready")
	switch {
	case s.Phase == corev1.PodSucceeded && len(unknown) == 0:
		ready, reason, message = false, "PodCompleted", ""
	case s.Phase == corev1.PodFailed:
		ready, reason, message = false, "PodFailed", ""
	case message != "":
		ready, reason = false, "ContainersNotReady"
	}
	set(corev1.ContainersReady, ready, reason, message)
	if ready {
		var gates []string
		for _, gate := range pod.Spec.ReadinessGates {
			// Gates are written by others, so the API's own conditions count, not the copy kept here.
			c := findCondition(pod.Status.Conditions, gate.ConditionType)
			if c == nil {
				gates = append(gates, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
			} else if c.Status != corev1.ConditionTrue {
				gates = append(gates, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), c.Status))
			}
		}
		if len(gates) > 0 {
			ready, reason, message = false, "ReadinessGatesNotReady", strings.Join(gates, ", ")
		}
	}
	set(corev1.PodReady, ready, reason, message)
	if findCondition(s.Conditions, corev1.PodScheduled) == nil {
		set(corev1.PodScheduled, true, "", "")
	}
}

func describe(unknown, other []string, word string) string {
	var parts []string
	if len(unknown) > 0 {
		parts = append(parts, fmt.Sprintf("containers with unknown status: %s", unknown))
	}
	if len(other) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %s", word, other))
	}
	return strings.Join(parts, ", ")
}

func findCondition(list []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
