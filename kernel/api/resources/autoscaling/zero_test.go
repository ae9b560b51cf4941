package autoscaling

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/features"
)

// minReplicas may be 0 where HPAScaleToZero is on and a metric is there without pods; what
// is stored stays when the gate is off again.
func TestMinReplicasZero(t *testing.T) {
	gate := func(value string) {
		t.Helper()
		if err := features.Use(map[string]string{"HPAScaleToZero": value}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := features.Use(nil); err != nil {
			t.Error(err)
		}
	})
	queue := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("1"))},
	}}
	of := func(least int32, m ...autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", ResourceVersion: "1"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MinReplicas: &least, MaxReplicas: 3, Metrics: m,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			},
		}
	}
	for _, tt := range []struct {
		gate     string
		old, new *autoscalingv2.HorizontalPodAutoscaler
		fault    string
	}{
		{"false", nil, of(0, queue), "must be greater than or equal to 1"},
		{"true", nil, of(0, queue), ""},
		{"true", nil, of(-1, queue), "must be greater than or equal to 0"},
		{"true", nil, of(0, utilizationMetric(50)), "must specify at least one Object or External metric to support scaling to zero replicas"},
		{"true", of(1, queue), of(0, queue), ""},
		{"false", of(1, queue), of(0, queue), "must be greater than or equal to 1"},
		{"false", of(0, queue), of(0, queue), ""},
	} {
		gate(tt.gate)
		errs := validateCreate(tt.new)
		if tt.old != nil {
			errs = validateUpdate(tt.new, tt.old)
		}
		if err := errs.ToAggregate(); tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("gate %s, minReplicas %d: %v, want %q", tt.gate, *tt.new.Spec.MinReplicas, err, tt.fault)
		}
	}
}
