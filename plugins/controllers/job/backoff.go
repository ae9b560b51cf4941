package job

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// firstPodBackoff is how long a pod waits after one failure; it doubles up
	// to lastPodBackoff.
	firstPodBackoff = 10 * time.Second
	lastPodBackoff  = 10 * time.Minute
)

// failures are those of a Job since a pod of it succeeded last.
type failures struct {
	count int32
	last  time.Time // zero if count is 0
}

// backoffs holds the failures of each Job. A restart of the process forgets
// them, as kube-controller-manager's does.
type backoffs struct {
	mu    sync.Mutex
	byJob map[types.UID]failures
}

func newBackoffs() *backoffs { return &backoffs{byJob: map[types.UID]failures{}} }

// next is what the Job's failures become by pods that ended since; store keeps
// it once the pods are in the Job's status. now bounds times of the future, also
// of what was kept: a clock that is set back does not put the next pod off.
func (b *backoffs) next(job types.UID, succeeded, failed []*corev1.Pod, now time.Time) failures {
	b.mu.Lock()
	f := b.byJob[job]
	if f.last.After(now) {
		f.last = now
		b.byJob[job] = f
	}
	b.mu.Unlock()
	ended := func(p *corev1.Pod) time.Time {
		if t := finishTime(p); t.Before(now) {
			return t
		}
		return now
	}
	var success time.Time
	if len(succeeded) > 0 {
		for _, p := range succeeded {
			if t := ended(p); t.After(success) {
				success = t
			}
		}
		f = failures{}
	}
	for _, p := range failed {
		t := ended(p)
		if len(succeeded) > 0 && !t.After(success) {
			continue
		}
		f.count++
		if t.After(f.last) {
			f.last = t
		}
	}
	return f
}

func (b *backoffs) store(job types.UID, f failures) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f == (failures{}) {
		delete(b.byJob, job)
		return
	}
	b.byJob[job] = f
}

func (b *backoffs) forget(job types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byJob, job)
}

// left is how long no pod is made.
func (f failures) left(now time.Time) time.Duration {
	if f.count <= 0 {
		return 0
	}
	wait := firstPodBackoff
	for n := int32(1); n < f.count && wait < lastPodBackoff; n++ {
		wait *= 2
	}
	return max(0, min(wait, lastPodBackoff)-now.Sub(f.last))
}

// indexLeft is left for an index whose last pod failed, nil for none.
func indexLeft(failed *corev1.Pod, now time.Time) time.Duration {
	if failed == nil {
		return 0
	}
	return failures{count: absoluteFailures(failed) + 1, last: finishTime(failed)}.left(now)
}

// finishTime is when the pod ended, as well as can be known: by its containers,
// by its readiness, which the node agent takes away at the end, by its deletion
// without the grace period, or else by its creation.
func finishTime(p *corev1.Pod) time.Time {
	if t := lastContainerEnd(p); !t.IsZero() {
		return t
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if p.DeletionTimestamp != nil {
		return p.DeletionTimestamp.Add(-time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	return p.CreationTimestamp.Time
}

// lastContainerEnd is zero as soon as a sidecar has no end. One of a regular
// container without an end does not count if the sidecars that follow have one.
func lastContainerEnd(p *corev1.Pod) time.Time {
	latest := func(from time.Time, statuses []corev1.ContainerStatus) time.Time {
		for _, s := range statuses {
			if s.State.Terminated == nil || s.State.Terminated.FinishedAt.IsZero() {
				return time.Time{}
			}
			if t := s.State.Terminated.FinishedAt.Time; from.Before(t) {
				from = t
			}
		}
		return from
	}
	sidecars := slices.DeleteFunc(slices.Clone(p.Status.InitContainerStatuses), func(s corev1.ContainerStatus) bool {
		return !slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == s.Name && ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		})
	})
	return latest(latest(time.Time{}, p.Status.ContainerStatuses), sidecars)
}
