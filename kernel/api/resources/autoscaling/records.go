package autoscaling

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"pintle.dev/pintle/kernel/api/quantities"
)

// Annotations of v1 that hold what it has no field for.
const (
	metricsRecord    = "autoscaling.alpha.kubernetes.io/metrics"
	currentRecord    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsRecord = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorRecord   = "autoscaling.alpha.kubernetes.io/behavior"
	toleranceDown    = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
	toleranceUp      = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
)

var records = []string{metricsRecord, currentRecord, conditionsRecord, behaviorRecord, toleranceDown, toleranceUp}

// withoutRecords is the map itself where it has none.
func withoutRecords(in map[string]string) map[string]string {
	out, copied := in, false
	for _, name := range records {
		if _, there := in[name]; !there {
			continue
		}
		if !copied {
			out, copied = maps.Clone(in), true
		}
		delete(out, name)
	}
	return out
}

// behavior is a v2 behavior under the names that upstream writes it with, which are those of Go's fields.
type (
	behavior struct{ ScaleUp, ScaleDown *scalingRules }

	scalingRules struct {
		StabilizationWindowSeconds *int32
		SelectPolicy               *autoscalingv2.ScalingPolicySelect
		Policies                   []scalingPolicy
		Tolerance                  *resource.Quantity
	}

	scalingPolicy struct {
		Type          autoscalingv2.HPAScalingPolicyType
		Value         int32
		PeriodSeconds int32
	}
)

func newScalingRules(in *autoscalingv2.HPAScalingRules) *scalingRules {
	if in == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance}
	if in.Policies != nil {
		out.Policies = make([]scalingPolicy, len(in.Policies))
	}
	for i, p := range in.Policies {
		out.Policies[i] = scalingPolicy(p)
	}
	return out
}

func (r *scalingRules) v2() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	if r.Policies != nil {
		out.Policies = make([]autoscalingv2.HPAScalingPolicy, len(r.Policies))
	}
	for i, p := range r.Policies {
		out.Policies[i] = autoscalingv2.HPAScalingPolicy(p)
	}
	return out
}

// withRecords is the annotations of in with those of v1. The map of in stays as it is.
func withRecords(in *autoscalingv2.HorizontalPodAutoscaler, others []autoscalingv1.MetricSpec) (map[string]string, error) {
	out := withoutRecords(in.Annotations)
	owned := false
	put := func(name string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if !owned {
			out, owned = maps.Clone(out), true
			if out == nil {
				out = map[string]string{}
			}
		}
		out[name] = string(text)
		return nil
	}
	if len(others) > 0 {
		if err := put(metricsRecord, others); err != nil {
			return nil, err
		}
	}
	if n := len(in.Status.CurrentMetrics); n > 0 {
		current := make([]autoscalingv1.MetricStatus, n)
		for i := range current {
			current[i] = statusToV1(&in.Status.CurrentMetrics[i])
		}
		if err := put(currentRecord, current); err != nil {
			return nil, err
		}
	}
	if b := in.Spec.Behavior; b != nil {
		if err := put(behaviorRecord, behavior{newScalingRules(b.ScaleUp), newScalingRules(b.ScaleDown)}); err != nil {
			return nil, err
		}
	}
	if n := len(in.Status.Conditions); n > 0 {
		conditions := make([]autoscalingv1.HorizontalPodAutoscalerCondition, n)
		for i, c := range in.Status.Conditions {
			conditions[i] = autoscalingv1.HorizontalPodAutoscalerCondition{
				Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			}
		}
		if err := put(conditionsRecord, conditions); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readRecords fills in what the annotations of v1 hold. One that cannot be read is
// as good as not there: anyone may write any annotation. So is one with a quantity
// that is too large.
func readRecords(annotations map[string]string, out *autoscalingv2.HorizontalPodAutoscaler) {
	read := func(name string, into any) bool {
		text, there := annotations[name]
		return there && quantities.CheckJSON([]byte(text), into) == nil && json.Unmarshal([]byte(text), into) == nil
	}
	var others []autoscalingv1.MetricSpec
	if read(metricsRecord, &others) {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&others[i]))
		}
	}
	var b behavior
	if read(behaviorRecord, &b) && b != (behavior{}) {
		out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.v2(), ScaleDown: b.ScaleDown.v2()}
	}
	var current []autoscalingv1.MetricStatus
	if read(currentRecord, &current) {
		out.Status.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(current))
		for i := range current {
			out.Status.CurrentMetrics[i] = statusFromV1(&current[i])
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if read(conditionsRecord, &conditions) {
		out.Status.Conditions = make([]autoscalingv2.HorizontalPodAutoscalerCondition, len(conditions))
		for i, c := range conditions {
			out.Status.Conditions[i] = autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			}
		}
	}
}
