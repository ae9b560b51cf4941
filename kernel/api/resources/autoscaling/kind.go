package autoscaling

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// Kinds lists the served kind.
func Kinds() []resources.Kind {
	gvk := autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	also := []schema.GroupVersion{autoscalingv1.SchemeGroupVersion}
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return []resources.Kind{{
		GVK: gvk, Also: also, Resource: "horizontalpodautoscalers", Singular: "horizontalpodautoscaler",
		ShortNames: []string{"hpa"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
		NewList: func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
		Strategy: resources.Rules[*autoscalingv2.HorizontalPodAutoscaler]{
			GVK: gvk, Also: also, Namespaced: true, Reset: [][]any{{"status"}},
			PrepareCreate: func(o *autoscalingv2.HorizontalPodAutoscaler) {
				o.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
			},
			PrepareUpdate:  func(o, old *autoscalingv2.HorizontalPodAutoscaler) { o.Status = old.Status },
			Validate:       validateCreate,
			ValidateUpdate: validateUpdate,
		}.Strategy(),
		Status: resources.Rules[*autoscalingv2.HorizontalPodAutoscaler]{
			GVK: gvk, Also: also, Namespaced: true, Reset: [][]any{{"spec"}},
			PrepareUpdate:  func(o, old *autoscalingv2.HorizontalPodAutoscaler) { o.Spec = old.Spec },
			ValidateUpdate: validateStatusUpdate,
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("Reference", spec["scaleTargetRef"]),
			resources.StringColumn("Targets", spec["metrics"]),
			resources.StringColumn("MinPods", spec["minReplicas"]),
			resources.StringColumn("MaxPods", spec["maxReplicas"]),
			resources.StringColumn("Replicas", status["currentReplicas"]),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*autoscalingv2.HorizontalPodAutoscaler)
			least := "<unset>"
			if o.Spec.MinReplicas != nil {
				least = fmt.Sprint(*o.Spec.MinReplicas)
			}
			return []any{o.Name, o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name, targetsCell(o.Spec.Metrics, o.Status.CurrentMetrics),
				least, int64(o.Spec.MaxReplicas), int64(o.Status.CurrentReplicas), resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}}
}

// AddToScheme registers the defaults and conversions of both versions and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	resources.AddDefaults(s, setDefaults, func(l *autoscalingv2.HorizontalPodAutoscalerList) []autoscalingv2.HorizontalPodAutoscaler {
		return l.Items
	})
	resources.AddDefaults(s, setV1Defaults, func(l *autoscalingv1.HorizontalPodAutoscalerList) []autoscalingv1.HorizontalPodAutoscaler {
		return l.Items
	})
	return addConversions(s)
}
