package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"pintle.dev/pintle/plugins/controllers/queue"
)

func (l *lifecycle) podsOn(node string) []*corev1.Pod {
	all, err := l.pods.List(labels.Everything())
	if err != nil {
		return nil
	}
	var on []*corev1.Pod
	for _, p := range all {
		if p.Spec.NodeName == node {
			on = append(on, p)
		}
	}
	return on
}

// syncPod deletes a pod that its node's NoExecute taints do not suffer (any
// longer), or comes back when that time is reached.
func (l *lifecycle) syncPod(ctx context.Context, key cache.ObjectName) error {
	forget := func() {
		l.mu.Lock()
		delete(l.since, key)
		l.mu.Unlock()
	}
	pod, err := l.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		forget()
		return nil
	}
	if err != nil {
		return err
	}
	node, err := l.nodes.Get(pod.Spec.NodeName)
	if err != nil || !hasNoExecute(node) || pod.DeletionTimestamp != nil {
		forget()
		return nil // pods of nodes that are gone are collected elsewhere
	}
	suffered, lasts := tolerated(ctx, pod.Spec.Tolerations, node.Spec.Taints)
	if suffered && lasts < 0 {
		forget()
		return nil
	}
	now := l.now()
	l.mu.Lock()
	since, known := l.since[key]
	if !known {
		since = now
		l.since[key] = now
	}
	l.mu.Unlock()
	if left := since.Add(lasts).Sub(now); suffered && left > 0 {
		return &queue.After{Delay: left, Reason: "the pod tolerates the taints of its node until then"}
	}
	return l.evict(ctx, pod)
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

func (l *lifecycle) evict(ctx context.Context, pod *corev1.Pod) error {
	l.recorder.Eventf(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
	client := l.client.CoreV1().Pods(pod.Namespace)
	marked := pod.DeepCopy()
	setPodCondition(marked, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.NewTime(l.now()),
	})
	if _, err := client.UpdateStatus(ctx, marked, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("pod %s/%s: mark for deletion: %w", pod.Namespace, pod.Name, err)
	}
	err := client.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("pod %s/%s: evict: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == c.Type {
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// markPods makes the pods of a node that is not ready not ready.
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
				if !apierrors.IsNotFound(err) {
					utilruntime.HandleErrorWithContext(ctx, err, "Mark a pod not ready")
				}
				continue // the next pass tries again
			}
			l.recorder.Event(marked, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		}
	}
}
