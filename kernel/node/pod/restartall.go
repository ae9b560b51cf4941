package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/status"
)

// restartsAll tells that a container ended by whose rules all containers of the pod are started anew (KEP-5532).
func restartsAll(pod *corev1.Pod, rt *cri.PodStatus) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if status.RestartsAll(&list[i], rt.Find(list[i].Name)) {
				return true
			}
		}
	}
	return false
}

// restartAll kills and removes all containers of the pod, the last of the spec first, so that the pod begins with its
// init containers again, in the sandbox that it has. Those whose end asked for it go last: while one is there, a round
// that was interrupted goes on with the rest. A wait says that the back-off of a pod that keeps doing this is not over.
func (m *Manager) restartAll(ctx context.Context, e *entry, pod *corev1.Pod, rt *cri.PodStatus) (time.Duration, error) {
	var sources, others []*cri.Container
	specs := map[string]*corev1.Container{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			specs[list[i].Name] = &list[i]
		}
	}
	var ended time.Time
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := len(list) - 1; i >= 0; i-- {
			for _, ct := range rt.Containers {
				switch {
				case ct.Name != list[i].Name:
				case ct == rt.Find(ct.Name) && status.RestartsAll(&list[i], ct):
					sources = append(sources, ct)
					if ct.Finished.After(ended) {
						ended = ct.Finished
					}
				default:
					others = append(others, ct)
				}
			}
		}
	}
	if !e.restartingAll {
		if wait := m.restartAllBackOff(e, pod, sources, ended); wait > 0 {
			return wait, nil
		}
		e.restartingAll = true
		m.report(e, pod, rt)
	}
	now := time.Duration(0)
	for _, ct := range append(others, sources...) {
		if ct.Running() || ct.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			if err := m.stopContainer(ctx, pod, specs[ct.Name], ct, fmt.Sprintf("Container %s is restarted with all containers of the pod", ct.Name), killOther, &now, nil); err != nil {
				return 0, fmt.Errorf("restart all containers: %w", err)
			}
		}
		if _, err := m.deps.CRI.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: ct.ID}); err != nil && !cri.IsNotFound(err) {
			return 0, fmt.Errorf("restart all containers: remove container %s: %s", ct.Name, cri.Message(err))
		}
	}
	e.restartingAll = false
	return 0, nil
}

// restartAllBackOff answers how long a pod must wait whose containers were all started anew before. The containers that
// still run go on meanwhile.
func (m *Manager) restartAllBackOff(e *entry, pod *corev1.Pod, sources []*cri.Container, ended time.Time) time.Duration {
	key := fmt.Sprintf("%s_restart-all", pod.UID)
	if !m.backoff.IsInBackOffSince(key, ended) {
		m.backoff.Next(key, ended)
		return 0
	}
	delay := m.backoff.Get(key)
	for _, ct := range sources {
		m.event(pod, ct.Name, corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting all containers in pod %s", container.Format(pod)))
		e.waiting[ct.Name] = status.Waiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting all containers of pod=%s", delay, container.Format(pod))}
	}
	return max(time.Until(ended.Add(delay)), time.Millisecond)
}
