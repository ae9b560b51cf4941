package autoscaling

import (
	"maps"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func quantityOf(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }

// full has something in every field that v1 has no field for.
func full() *autoscalingv2.HorizontalPodAutoscaler {
	name := func(n string) autoscalingv2.MetricIdentifier {
		return autoscalingv2.MetricIdentifier{Name: n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	}
	ref := autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "i"}
	average := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantityOf("1500m")}
	o := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "h", Annotations: map[string]string{"mine": "x"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 7,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{DescribedObject: ref, Metric: name("o"), Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: quantityOf("10k")}}},
				{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{DescribedObject: ref, Metric: name("p"), Target: average}},
				{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: name("q"), Target: average}},
				{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: name("r"), Target: average}},
				{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory, Target: average}},
				{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: "c", Target: usage(ptr.To[int32](50), nil)}},
				utilizationMetric(60),
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &autoscalingv2.HPAScalingRules{Tolerance: quantityOf("50m"), Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}}},
				ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](5)},
			},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: ptr.To[int64](3), CurrentReplicas: 3, DesiredReplicas: 4,
			Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "r", Message: "m"}},
			CurrentMetrics: []autoscalingv2.MetricStatus{
				{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageValue: quantityOf("100m"), AverageUtilization: ptr.To[int32](40)}}},
				{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{Metric: name("q"), Current: autoscalingv2.MetricValueStatus{AverageValue: quantityOf("7")}}},
			},
		},
	}
	setDefaults(o)
	return o
}

// Nothing is lost on the way through v1, and the object that is sent stays as it is.
func TestThroughV1(t *testing.T) {
	in := full()
	before := in.DeepCopy()
	var old autoscalingv1.HorizontalPodAutoscaler
	if err := toV1(in, &old); err != nil {
		t.Fatal(err)
	}
	if !apiequality.Semantic.DeepEqual(in, before) || !maps.Equal(in.Annotations, before.Annotations) {
		t.Errorf("conversion changed what it was given: %+v", in)
	}
	if *old.Spec.TargetCPUUtilizationPercentage != 60 || *old.Status.CurrentCPUUtilizationPercentage != 40 || old.Annotations["mine"] != "x" {
		t.Errorf("v1: %+v", old)
	}
	kept := old.DeepCopy()
	var out autoscalingv2.HorizontalPodAutoscaler
	fromV1(&old, &out)
	setDefaults(&out)
	if !apiequality.Semantic.DeepEqual(&out, before) {
		t.Errorf("came back as %+v\nwant %+v", out, before)
	}
	if !apiequality.Semantic.DeepEqual(&old, kept) {
		t.Errorf("conversion changed what it was given: %+v", old)
	}
}

// Annotations that nobody but v1 needs are not stored in v2's form.
func TestRecordsOfV2(t *testing.T) {
	o := full()
	given := map[string]string{"mine": "x"}
	for _, name := range records {
		given[name] = "[]"
	}
	o.Annotations = given
	setDefaults(o)
	if len(o.Annotations) != 1 || len(given) != len(records)+1 {
		t.Errorf("annotations %v of %v", o.Annotations, given)
	}
}

func TestTargetsCell(t *testing.T) {
	o := full()
	shared := o.DeepCopy()
	for _, tt := range []struct {
		from, to int
		want     string
	}{
		{0, 0, "<none>"}, {0, 1, "<unknown>/10k"}, {1, 3, "<unknown>/1500m (avg), <unknown>/1500m"}, {4, 6, "memory: <unknown>/1500m, cpu: <unknown>/50%"},
		{0, 7, "<unknown>/10k, <unknown>/1500m (avg) + 5 more..."},
	} {
		if got := targetsCell(o.Spec.Metrics[tt.from:tt.to], nil); got != tt.want {
			t.Errorf("%d to %d: %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
	if got := targetsCell([]autoscalingv2.MetricSpec{{Type: autoscalingv2.PodsMetricSourceType}}, nil); got != "<unknown type>" {
		t.Errorf("a metric without its source: %q", got)
	}
	if !apiequality.Semantic.DeepEqual(o, shared) {
		t.Error("printing changed the object")
	}
}

// Anyone may write any annotation: none is a panic, and what is read from them is
// what is written to them again.
func FuzzRecords(f *testing.F) {
	var old autoscalingv1.HorizontalPodAutoscaler
	if err := toV1(full(), &old); err != nil {
		f.Fatal(err)
	}
	f.Add(old.Annotations[metricsRecord], old.Annotations[currentRecord], old.Annotations[conditionsRecord], old.Annotations[behaviorRecord])
	f.Add("null", "[null]", `[{"type":1}]`, `{"ScaleUp":{}}`)
	f.Add(`[{"type":"Object","object":{"targetValue":"1e999999"}}]`, strings.Repeat("[", 9999), "{}", `{"scaleup":{"policies":[{}]}}`)
	f.Add(`[{"type":"Object","object":{"TARGETVALUE":"123456789012345678901e999999"}}]`,
		`[{"type":"Resource","resource":{"currentAverageValue":"1e-2147483648"}}]`, "{}", `{"scaleup":{"tolerance":"123456789012345678901e999999"}}`)
	f.Fuzz(func(t *testing.T, metrics, current, conditions, behavior string) {
		old := autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			metricsRecord: metrics, currentRecord: current, conditionsRecord: conditions, behaviorRecord: behavior}}}
		var first, second autoscalingv2.HorizontalPodAutoscaler
		fromV1(&old, &first)
		setDefaults(&first)
		_ = validateCreate(&first)
		var again autoscalingv1.HorizontalPodAutoscaler
		if err := toV1(&first, &again); err != nil {
			t.Fatal(err)
		}
		fromV1(&again, &second)
		var third autoscalingv1.HorizontalPodAutoscaler
		if err := toV1(&second, &third); err != nil {
			t.Fatal(err)
		}
		if second.Annotations[metricsRecord] != "" || len(second.Spec.Metrics) != len(first.Spec.Metrics) || len(second.Status.Conditions) != len(first.Status.Conditions) {
			t.Errorf("first %+v\nthen %+v", first, second)
		}
	})
}
