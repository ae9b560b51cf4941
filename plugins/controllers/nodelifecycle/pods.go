package nodelifecycle

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"pintle.dev/pintle/plugins/controllers/nodepods"
)

// markPods makes the pods of a node not ready.
func (l *lifecycle) markPods(ctx context.Context, node string) {
	for _, p := range nodepods.On(l.informers.pods.GetIndexer(), node) {
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
