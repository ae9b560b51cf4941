package replicaset

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// newStatus counts the pods, and tells of a sync that failed by the
// ReplicaFailure condition.
func (r *replicator) newStatus(rs *appsv1.ReplicaSet, pods []*corev1.Pod, terminating int, manageErr error, now time.Time) appsv1.ReplicaSetStatus {
	s := *rs.Status.DeepCopy()
	s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas = int32(len(pods)), 0, 0, 0
	s.TerminatingReplicas = nil
	if r.terminating {
		s.TerminatingReplicas = ptr.To(int32(terminating))
	}
	template := labels.SelectorFromSet(rs.Spec.Template.Labels)
	for _, p := range pods {
		if template.Matches(labels.Set(p.Labels)) {
			s.FullyLabeledReplicas++
		}
		if left, ready := untilAvailable(p, rs.Spec.MinReadySeconds, now); ready {
			s.ReadyReplicas++
			if left == 0 {
				s.AvailableReplicas++
			}
		}
	}
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	failed := slices.ContainsFunc(s.Conditions, isFailure)
	switch {
	case manageErr != nil && !failed:
		reason := "FailedCreate"
		if len(pods) > int(ptr.Deref(rs.Spec.Replicas, 1)) {
			reason = "FailedDelete"
		}
		s.Conditions = append(s.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now), Reason: reason, Message: manageErr.Error(),
		})
	case manageErr == nil && failed:
		s.Conditions = slices.DeleteFunc(s.Conditions, isFailure)
	}
	return s
}

// writeStatus writes a status that differs, with one more try on a fresh
// object (RCC-21).
func (r *replicator) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet, s appsv1.ReplicaSetStatus) (*appsv1.ReplicaSet, error) {
	s.ObservedGeneration = rs.Generation // what was acted on, also on the second try
	if equality.Semantic.DeepEqual(rs.Status, s) {
		return rs, nil
	}
	for try := 0; ; try++ {
		rs = rs.DeepCopy()
		rs.Status = s
		updated, err := r.status(ctx, rs)
		if err == nil || try == 1 {
			return updated, err
		}
		if rs, err = r.get(ctx, rs.Namespace, rs.Name); err != nil {
			return nil, err
		}
	}
}
