package job

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

var phaseOrder = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

// leastMissed orders active pods so that those go first that have done least:
// not assigned, then by phase, not ready, ready late, restarted often, created
// late.
func leastMissed(a, b *corev1.Pod) int {
	first := func(a bool) int {
		if a {
			return -1
		}
		return 1
	}
	if (a.Spec.NodeName == "") != (b.Spec.NodeName == "") {
		return first(a.Spec.NodeName == "")
	}
	if c := cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]); c != 0 {
		return c
	}
	readyA, readyB := readyCondition(a), readyCondition(b)
	if (readyA != nil) != (readyB != nil) {
		return first(readyA == nil)
	}
	if readyA != nil {
		if c := later(readyA.LastTransitionTime.Time, readyB.LastTransitionTime.Time); c != 0 {
			return c
		}
	}
	regularA, sidecarA := restarts(a)
	regularB, sidecarB := restarts(b)
	return cmp.Or(cmp.Compare(regularB, regularA), cmp.Compare(sidecarB, sidecarA), later(a.CreationTimestamp.Time, b.CreationTimestamp.Time))
}

// later puts no time first and then the later one.
func later(a, b time.Time) int {
	switch {
	case a.Equal(b):
		return 0
	case a.IsZero() || !b.IsZero() && a.After(b):
		return -1
	}
	return 1
}

// restarts returns the highest restart count of the containers, and of the
// sidecars.
func restarts(p *corev1.Pod) (regular, sidecar int32) {
	for _, s := range p.Status.ContainerStatuses {
		regular = max(regular, s.RestartCount)
	}
	for _, s := range p.Status.InitContainerStatuses {
		if slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == s.Name && ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		}) {
			sidecar = max(sidecar, s.RestartCount)
		}
	}
	return regular, sidecar
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isActive(p *corev1.Pod) bool { return !ended(p) && p.DeletionTimestamp == nil }

func isTerminating(p *corev1.Pod) bool { return !ended(p) && p.DeletionTimestamp != nil }

// readyCondition returns the pod's Ready condition if it is true.
func readyCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
