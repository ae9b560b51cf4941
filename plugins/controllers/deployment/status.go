package deployment

import (
	"context"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of conditions and events.
const (
	reasonUpdated     = "ReplicaSetUpdated"
	reasonSetFailed   = "ReplicaSetCreateError"
	reasonNewSet      = "NewReplicaSetCreated"
	reasonFoundSet    = "FoundNewReplicaSet"
	reasonAvailable   = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
	reasonEnough      = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
)

func hasDeadline(dep *appsv1.Deployment) bool {
	return dep.Spec.ProgressDeadlineSeconds != nil && *dep.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

func condition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func dropCondition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}

// putCondition sets a condition; one of the same status and reason stays as
// it is, times and message included.
func putCondition(s *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	if had := condition(s, c.Type); had != nil {
		if had.Status == c.Status && had.Reason == c.Reason {
			return
		}
		if had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
	}
	dropCondition(s, c.Type)
	s.Conditions = append(s.Conditions, c)
}

func (d *deployer) newCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	now := metav1.NewTime(d.clock.Now())
	return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now}
}

func (r *rollout) setCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	putCondition(&r.dep.Status, r.newCondition(kind, status, reason, message))
}

// status sums up the replica sets.
func (r *rollout) status() appsv1.DeploymentStatus {
	all := r.all()
	s := appsv1.DeploymentStatus{
		ObservedGeneration:  r.dep.Generation,
		AvailableReplicas:   availableReplicas(all),
		TerminatingReplicas: new(int32),
		CollisionCount:      r.dep.Status.CollisionCount,
		Conditions:          slices.Clone(r.dep.Status.Conditions),
	}
	for _, rs := range all {
		s.Replicas += rs.Status.Replicas
		s.ReadyReplicas += rs.Status.ReadyReplicas
		switch {
		case s.TerminatingReplicas == nil || rs.Status.TerminatingReplicas == nil && rs.Status.ObservedGeneration == 0:
		case rs.Status.TerminatingReplicas == nil:
			s.TerminatingReplicas = nil // one that does not count: unknown
		default:
			*s.TerminatingReplicas += *rs.Status.TerminatingReplicas
		}
	}
	if r.current != nil {
		s.UpdatedReplicas = r.current.Status.Replicas
	}
	s.UnavailableReplicas = max(0, specReplicas(all)-s.AvailableReplicas)
	if s.AvailableReplicas >= *r.dep.Spec.Replicas-maxUnavailable(r.dep) {
		putCondition(&s, r.newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonEnough, "Deployment has minimum availability."))
	} else {
		putCondition(&s, r.newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable, "Deployment does not have minimum availability."))
	}
	return s
}

// writeScaled writes the status of a deployment that is not rolled on; its
// progress stays as it was.
func (r *rollout) writeScaled(ctx context.Context) error {
	s := r.status()
	if equality.Semantic.DeepEqual(r.dep.Status, s) {
		return nil
	}
	r.dep.Status = s
	return r.writeStatus(ctx, r.dep)
}
