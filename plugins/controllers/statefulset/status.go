package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// count counts the pods into the status. Those that were only just made, and
// did not come from the cache, do not count yet.
func (p *pass) count(pods []*corev1.Pod) {
	s := p.status
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas = 0, 0, 0, 0, 0
	for _, pod := range pods {
		if !created(pod) {
			continue
		}
		s.Replicas++
		if runningAndReady(pod) {
			s.ReadyReplicas++
			if yes, _ := available(pod, p.set.Spec.MinReadySeconds, p.now); yes {
				s.AvailableReplicas++
			}
		}
		if terminating(pod) {
			continue
		}
		if revisionOf(pod) == s.CurrentRevision {
			s.CurrentReplicas++
		}
		if revisionOf(pod) == s.UpdateRevision {
			s.UpdatedReplicas++
		}
	}
}

// complete makes the new revision the current one when all pods have it and are ready.
func complete(set *appsv1.StatefulSet, s *appsv1.StatefulSetStatus) {
	want := ptr.Deref(set.Spec.Replicas, 1)
	if set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		s.UpdatedReplicas == want && s.ReadyReplicas == want && s.Replicas == want {
		s.CurrentReplicas, s.CurrentRevision = s.UpdatedReplicas, s.UpdateRevision
	}
}

// differs says whether the status is worth a write.
func differs(set *appsv1.StatefulSet, s *appsv1.StatefulSetStatus) bool {
	was := &set.Status
	return s.ObservedGeneration > was.ObservedGeneration || s.Replicas != was.Replicas || s.ReadyReplicas != was.ReadyReplicas ||
		s.AvailableReplicas != was.AvailableReplicas || s.CurrentReplicas != was.CurrentReplicas || s.UpdatedReplicas != was.UpdatedReplicas ||
		s.CurrentRevision != was.CurrentRevision || s.UpdateRevision != was.UpdateRevision
}
