package deployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// complete says that all replicas are of the current template and available.
func complete(dep *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	want := *dep.Spec.Replicas
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want && s.ObservedGeneration >= dep.Generation
}

// progressed says that the rollout came further between the two.
func progressed(before, after *appsv1.DeploymentStatus) bool {
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.Replicas-after.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		after.ReadyReplicas > before.ReadyReplicas || after.AvailableReplicas > before.AvailableReplicas
}

// timedOut says that nothing came further for the progress deadline.
func timedOut(dep *appsv1.Deployment, s *appsv1.DeploymentStatus, now time.Time) bool {
	c := condition(s, appsv1.DeploymentProgressing)
	if c == nil || c.Reason == reasonAvailable {
		return false // not begun, or an earlier rollout's success
	}
	return c.Reason == reasonTimedOut || c.LastUpdateTime.Add(deadline(dep)).Before(now)
}

func deadline(dep *appsv1.Deployment) time.Duration {
	return time.Duration(*dep.Spec.ProgressDeadlineSeconds) * time.Second
}

// writeRolled writes the status with the rollout's progress, and looks again
// when the progress deadline will have passed.
func (r *rollout) writeRolled(ctx context.Context) error {
	s := r.status()
	r.progress(&s)
	if failure := r.replicaFailure(); failure != nil {
		putCondition(&s, *failure)
	} else {
		dropCondition(&s, appsv1.DeploymentReplicaFailure)
	}
	if equality.Semantic.DeepEqual(r.dep.Status, s) {
		r.lookAgain()
		return nil
	}
	r.dep.Status = s
	return r.writeStatus(ctx, r.dep)
}

func (r *rollout) progress(s *appsv1.DeploymentStatus) {
	if !hasDeadline(r.dep) {
		dropCondition(s, appsv1.DeploymentProgressing)
		return
	}
	had := condition(&r.dep.Status, appsv1.DeploymentProgressing)
	if had != nil && had.Reason == reasonAvailable && s.Replicas == s.UpdatedReplicas {
		// Complete, and no new template since: pods that come and go now are
		// no rollout and cannot time out.
		return
	}
	what := fmt.Sprintf("Deployment %q", r.dep.Name)
	if r.current != nil {
		what = fmt.Sprintf("ReplicaSet %q", r.current.Name)
	}
	switch {
	case complete(r.dep, s):
		putCondition(s, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonAvailable, what+" has successfully progressed."))
	case progressed(&r.dep.Status, s):
		c := r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, what+" is progressing.")
		if had != nil && had.Status == corev1.ConditionTrue {
			c.LastTransitionTime = had.LastTransitionTime
		}
		// Also over one of the same reason: its update time is the clock of
		// the deadline.
		dropCondition(s, appsv1.DeploymentProgressing)
		putCondition(s, c)
	case timedOut(r.dep, s, r.clock.Now()):
		putCondition(s, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonTimedOut, what+" has timed out progressing."))
	}
}

// replicaFailure is the failure of the current replica set, or else of any.
func (r *rollout) replicaFailure() *appsv1.DeploymentCondition {
	sets := r.old
	if r.current != nil {
		sets = append([]*appsv1.ReplicaSet{r.current}, sets...)
	}
	for _, rs := range sets {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return &appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastUpdateTime: c.LastTransitionTime, LastTransitionTime: c.LastTransitionTime,
				}
			}
		}
	}
	return nil
}

func (r *rollout) lookAgain() {
	c := condition(&r.dep.Status, appsv1.DeploymentProgressing)
	if !hasDeadline(r.dep) || c == nil || c.Reason == reasonTimedOut || complete(r.dep, &r.dep.Status) {
		return
	}
	after := c.LastUpdateTime.Add(deadline(r.dep)).Sub(r.clock.Now())
	// The stored time has whole seconds; one more and it has passed for sure.
	r.AddAfter(queue.Key(r.dep), max(after, 0)+time.Second)
}

// notePause tells of pause and resumption by the Progressing condition, so
// that the time of a pause does not count.
func (r *rollout) notePause(ctx context.Context) error {
	if !hasDeadline(r.dep) {
		return nil
	}
	c := condition(&r.dep.Status, appsv1.DeploymentProgressing)
	if c != nil && c.Reason == reasonTimedOut {
		return nil
	}
	noted := c != nil && c.Reason == reasonPaused
	switch {
	case r.dep.Spec.Paused && !noted:
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
	case !r.dep.Spec.Paused && noted:
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed")
	default:
		return nil
	}
	return r.writeStatus(ctx, r.dep)
}
