package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// syncPod deletes a pod that its node's NoExecute taints do not suffer (any
// longer), or comes back when that time is reached.
func (l *lifecycle) syncPod(ctx context.Context, key cache.ObjectName) error {
	pod, err := l.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		l.cancel(key, true)
		return nil
	}
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil {
		l.cancel(key, false)
		return nil
	}
	node, err := l.nodes.Get(pod.Spec.NodeName)
	if err != nil || !hasNoExecute(node) {
		l.cancel(key, true)
		return nil // pods of nodes that are gone are collected elsewhere
	}
	suffered, lasts := tolerated(ctx, pod.Spec.Tolerations, node.Spec.Taints)
	if suffered && lasts < 0 {
		l.cancel(key, true)
		return nil
	}
	if suffered {
		now := l.now()
		l.mu.Lock()
		since, known := l.since[key]
		if !known {
			since = now
			l.since[key] = now
		}
		l.mu.Unlock()
		if left := since.Add(lasts).Sub(now); left > 0 {
			return &queue.After{Delay: left, Reason: "the pod tolerates the taints of its node until then"}
		}
	}
	if err := l.evict(ctx, pod); err != nil {
		return err
	}
	l.cancel(key, false)
	return nil
}

// cancel forgets a planned eviction, and tells that if it is to be told.
func (l *lifecycle) cancel(key cache.ObjectName, tell bool) {
	l.mu.Lock()
	_, planned := l.since[key]
	delete(l.since, key)
	l.mu.Unlock()
	if planned && tell {
		l.evictor.Eventf(podReference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
	}
}

func podReference(key cache.ObjectName) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name}
}

// tolerated says whether all NoExecute taints are tolerated and for how long;
// negative is for ever.
func tolerated(ctx context.Context, tolerations []corev1.Toleration, taints []corev1.Taint) (bool, time.Duration) {
	least := time.Duration(-1)
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectNoExecute {
			continue
		}
		found := false
		for j := range tolerations {
			t := &tolerations[j]
			if !t.ToleratesTaint(klog.FromContext(ctx), &taints[i], false) {
				continue
			}
			found = true
			if t.TolerationSeconds != nil {
				d := time.Duration(max(*t.TolerationSeconds, 0)) * time.Second
				if least < 0 || d < least {
					least = d
				}
			}
			break
		}
		if !found {
			return false, 0
		}
	}
	return true, least
}

// evict marks a pod for its owner to see why, and deletes it.
func (l *lifecycle) evict(ctx context.Context, pod *corev1.Pod) error {
	key := cache.MetaObjectToName(pod)
	l.evictor.Eventf(podReference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s", key)
	target := map[string]any{
		"type": corev1.DisruptionTarget, "status": corev1.ConditionTrue, "reason": "DeletionByTaintManager",
		"message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": metav1.NewTime(l.now()),
	}
	if pod.Status.ObservedGeneration != 0 {
		target["observedGeneration"] = pod.Generation
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // another pod of this name is not meant
		"status":   map[string]any{"conditions": []any{target}},
	})
	if err != nil {
		return err
	}
	client := l.client.CoreV1().Pods(pod.Namespace)
	_, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		err = client.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("pod %s: evict: %w", key, err)
	}
	return nil
}

// markPods makes the pods of a node not ready.
func (l *lifecycle) markPods(ctx context.Context, node string) {
	for _, p := range l.podsOn(node) {
		for i, c := range p.Status.Conditions {
			if c.Type != corev1.PodReady || c.Status == corev1.ConditionFalse {
				continue
			}
			marked := p.DeepCopy()
			marked.Status.Conditions[i].Status = corev1.ConditionFalse
			marked.Status.Conditions[i].LastTransitionTime = metav1.NewTime(l.now())
			if _, err := l.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, marked, metav1.UpdateOptions{}); err != nil {
				if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					utilruntime.HandleErrorWithContext(ctx, err, "Mark a pod not ready")
				}
				continue // the next pass tries again
			}
			l.recorder.Event(marked, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		}
	}
}
