package resources

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ScaleColumns are the columns of a Scale, whatever kind it is of.
func ScaleColumns() []metav1.TableColumnDefinition {
	return cols(stringColumn("Name", metaDoc["name"]),
		integerColumn("Desired", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
		integerColumn("Available", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]), ageColumn())
}

// ScaleRow fills ScaleColumns.
func ScaleRow(obj runtime.Object) ([]any, error) {
	s, ok := obj.(*autoscalingv1.Scale)
	if !ok {
		return nil, fmt.Errorf("print a scale: unexpected type %T", obj)
	}
	return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), ageCell(s.CreationTimestamp)}, nil
}
