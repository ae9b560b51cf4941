package tainteviction

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// evict says in the pod's status why it goes, and deletes it.
func (e *evictor) evict(ctx context.Context, pod *corev1.Pod) error {
	patch, err := e.reason(pod)
	if err != nil {
		return err
	}
	client := e.client.CoreV1().Pods(pod.Namespace)
	if patch != nil {
		_, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil {
		err = client.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("pod %s/%s: delete it for a taint of node %s: %w", pod.Namespace, pod.Name, pod.Spec.NodeName, err)
}

// reason is the patch of the status, nil if the status says so already.
func (e *evictor) reason(pod *corev1.Pod) ([]byte, error) {
	target := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(e.now()),
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != target.Type {
			continue
		}
		if c.Status == target.Status {
			target.LastTransitionTime = c.LastTransitionTime
		}
		if c.Status == target.Status && c.Reason == target.Reason && c.Message == target.Message && c.ObservedGeneration == target.ObservedGeneration {
			return nil, nil
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // another pod of this name is not meant
		"status":   map[string]any{"conditions": []corev1.PodCondition{target}},
	})
}
