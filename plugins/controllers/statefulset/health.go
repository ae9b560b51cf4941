package statefulset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// created says whether the pod came from the API, which always gives a phase.
func created(p *corev1.Pod) bool { return p.Status.Phase != "" }

func terminating(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

func readiness(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func runningAndReady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && readiness(p) != nil
}

// available says whether the pod has been ready for long enough. If it is ready
// and not yet available, left is for how long it must stay ready still.
func available(p *corev1.Pod, minReadySeconds int32, now time.Time) (yes bool, left time.Duration) {
	c := readiness(p)
	if c == nil {
		return false, 0
	}
	if minReadySeconds == 0 {
		return true, 0
	}
	wait := time.Duration(minReadySeconds) * time.Second
	if c.LastTransitionTime.IsZero() {
		return false, wait
	}
	left = c.LastTransitionTime.Add(wait).Sub(now)
	return left <= 0, max(0, left)
}

func unavailable(p *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	yes, _ := available(p, minReadySeconds, now)
	return !yes || terminating(p)
}

// nextLook is when to look again at pods that are ready and not yet available.
func nextLook(pods []*corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	next := time.Duration(minReadySeconds) * time.Second
	for _, p := range pods {
		if _, left := available(p, minReadySeconds, now); left > 0 {
			next = min(next, left)
		}
	}
	return next
}
