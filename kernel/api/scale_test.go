package api_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// kubectl get --subresource=scale asks for the Scale as a table: it has columns
// of its own, whatever it is the scale of. An object's status prints as the object.
func TestScaleTable(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	template := pod("x")
	template.Labels = map[string]string{"a": "b"}
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "rc"}, Spec: corev1.ReplicationControllerSpec{
		Replicas: ptr.To[int32](3), Template: &corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
	}}
	if _, err := c.CoreV1().ReplicationControllers("default").Create(t.Context(), rc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for subresource, want := range map[string][]string{
		"scale":  {"Name", "Desired", "Available", "Age"},
		"status": {"Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"},
	} {
		var table metav1.Table
		if err := c.CoreV1().RESTClient().Get().Namespace("default").Resource("replicationcontrollers").Name("rc").SubResource(subresource).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(&table); err != nil {
			t.Errorf("%s: %v", subresource, err)
			continue
		}
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		if !slices.Equal(columns, want) || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "rc" || table.Rows[0].Cells[1] != int64(3) {
			t.Errorf("%s: columns %v, rows %v", subresource, columns, table.Rows)
		}
	}
}
