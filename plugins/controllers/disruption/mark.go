package disruption

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// stale says that a pod which runs on is marked for a disruption, and after
// what time the mark goes.
func (k *keeper) stale(pod *corev1.Pod) (time.Duration, bool) {
	i := target(pod)
	if i < 0 || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0, false
	}
	c := pod.Status.Conditions[i]
	if c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet {
		return 0, false
	}
	return max(0, timeout-k.clock.Since(c.LastTransitionTime.Time)), true
}

func target(pod *corev1.Pod) int {
	return slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
}

func (k *keeper) unmark(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := k.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	left, marked := k.stale(pod)
	if !marked {
		return nil
	}
	if left > 0 {
		return &queue.After{Delay: left, Reason: "the pod may still be deleted"}
	}
	pod = pod.DeepCopy()
	pod.Status.Conditions[target(pod)] = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.NewTime(k.clock.Now()),
	}
	_, err = k.client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
