package horizontalpodautoscaler

import (
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func now() metav1.Time { return metav1.Now() }

// setStatus puts counts and metrics into the status; the rest of it stays.
func (r *round) setStatus(current, desired int32, metrics []autoscalingv2.MetricStatus) {
	status := &r.hpa.Status
	status.ObservedGeneration = nil // as Kubernetes' controller leaves it
	status.CurrentReplicas, status.DesiredReplicas, status.CurrentMetrics = current, desired, metrics
}

// write writes the status, if it is another.
func (r *round) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(r.former, &r.hpa.Status) {
		return nil
	}
	if _, err := r.client.AutoscalingV2().HorizontalPodAutoscalers(r.hpa.Namespace).UpdateStatus(ctx, r.hpa, metav1.UpdateOptions{}); err != nil {
		r.recorder.Event(r.hpa, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
		return fmt.Errorf("failed to update status for %s: %w", r.hpa.Name, err)
	}
	return nil
}

func setCondition(hpa *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	i := slices.IndexFunc(hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(hpa.Status.Conditions)
		hpa.Status.Conditions = append(hpa.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &hpa.Status.Conditions[i]
	if c.Status != status {
		c.LastTransitionTime = now()
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

func removeCondition(hpa *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) {
	hpa.Status.Conditions = slices.DeleteFunc(hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
}

func isTrue(hpa *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) bool {
	return slices.ContainsFunc(hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// hasOutsideMetric says whether a metric is of something else than pods, which there is
// without any pod.
func hasOutsideMetric(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(hpa.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}
