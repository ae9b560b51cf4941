package devicetainteviction

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// carryOut tells that a pod is marked, once, says in its status why it goes, and deletes it.
func (e *evictor) carryOut(ctx context.Context, name cache.ObjectName, pod *corev1.Pod, p plan) error {
	pods := e.client.CoreV1().Pods(name.Namespace)
	now, err := pods.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (now.UID != p.uid || now.DeletionTimestamp != nil) {
		e.forget(name) // it goes already, or another has its name
		return nil
	}
	if err != nil {
		return fmt.Errorf("pod %s: get it, to delete it for a taint of a device: %w", name, err)
	}
	if !p.marked {
		e.Recorder.Event(reference(pod), corev1.EventTypeNormal, eviction, "Marking for deletion")
		p.marked = true
		e.remember(name, p)
	}
	patch, err := e.reason(now)
	if err != nil {
		return err
	}
	if patch != nil {
		_, err = pods.Patch(ctx, name.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil {
		err = pods.Delete(ctx, name.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.uid))})
	}
	if apierrors.IsNotFound(err) {
		e.forget(name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("pod %s: delete it for a taint of a device: %w", name, err)
	}
	e.forget(name)
	deletions.Inc()
	deletionSeconds.Observe(e.now().Sub(p.due).Seconds())
	return nil
}

// reason is the patch of the status, nil if the status says so already.
func (e *evictor) reason(pod *corev1.Pod) ([]byte, error) {
	target := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager",
		Message: "Device Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.NewTime(e.now()),
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != target.Type || c.Status != target.Status {
			continue
		}
		target.LastTransitionTime = c.LastTransitionTime
		if c.Reason == target.Reason && c.Message == target.Message {
			return nil, nil
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // another pod of this name is not meant
		"status":   map[string]any{"conditions": []corev1.PodCondition{target}},
	})
}

func reference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
