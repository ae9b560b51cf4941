package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// defaultUtilization is the percentage of CPU that pods are kept at when no metric is named.
const defaultUtilization int32 = 80

// changePeriod is the time, in seconds, in which the default policies allow their change.
const changePeriod int32 = 15

func setDefaults(o *autoscalingv2.HorizontalPodAutoscaler) {
	// v2 has fields for what these hold: only v1 needs them.
	o.Annotations = withoutRecords(o.Annotations)
	for i := range o.Status.Conditions {
		o.Status.Conditions[i].ObservedGeneration = nil // not in 1.36
	}
	if o.Spec.MinReplicas == nil {
		o.Spec.MinReplicas = ptr.To[int32](1)
	}
	if len(o.Spec.Metrics) == 0 {
		o.Spec.Metrics = []autoscalingv2.MetricSpec{utilizationMetric(defaultUtilization)}
	}
	if b := o.Spec.Behavior; b != nil {
		b.ScaleUp = completed(b.ScaleUp, &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](0),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: changePeriod},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: changePeriod},
			},
		})
		// How long to wait before scaling down is a setting of the controller.
		b.ScaleDown = completed(b.ScaleDown, &autoscalingv2.HPAScalingRules{
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: changePeriod}},
		})
	}
}

// completed is the defaults with what the given rules say instead.
func completed(given, defaults *autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	defaults.SelectPolicy = ptr.To(autoscalingv2.MaxChangePolicySelect)
	if given == nil {
		return defaults
	}
	if given.SelectPolicy != nil {
		defaults.SelectPolicy = given.SelectPolicy
	}
	if given.StabilizationWindowSeconds != nil {
		defaults.StabilizationWindowSeconds = given.StabilizationWindowSeconds
	}
	if given.Policies != nil {
		defaults.Policies = given.Policies
	}
	defaults.Tolerance = given.Tolerance
	return defaults
}

// setV1Defaults leaves the default of metrics to the conversion, which sees those in annotations.
func setV1Defaults(o *autoscalingv1.HorizontalPodAutoscaler) {
	if o.Spec.MinReplicas == nil {
		o.Spec.MinReplicas = ptr.To[int32](1)
	}
}

// utilizationMetric is the one metric that v1 has a field for.
func utilizationMetric(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}
