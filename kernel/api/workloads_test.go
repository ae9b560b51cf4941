package api_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func template(restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	spec := pod("x").Spec
	spec.RestartPolicy = restart
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: spec}
}

// selecting matches the pods of template.
func selecting() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
}

// TestPodTemplates: a PodTemplate is listed in parts, patched, and deleted with
// the object as the answer.
func TestPodTemplates(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	templates := overTLS(t, s).CoreV1().PodTemplates("default")
	want := map[string]bool{}
	for i := range 25 {
		name := fmt.Sprintf("template-%02d", i)
		want[name] = true
		o, err := templates.Create(ctx, &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Template: template(corev1.RestartPolicyAlways)}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if o.Generation != 1 || o.Template.Spec.DNSPolicy != corev1.DNSClusterFirst {
			t.Fatalf("created %+v", o)
		}
	}
	got := map[string]bool{}
	for options := (metav1.ListOptions{Limit: 7}); ; {
		list, err := templates.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > 7 {
			t.Errorf("a part of %d", len(list.Items))
		}
		for _, o := range list.Items {
			got[o.Name] = true
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("listed %v", slices.Sorted(maps.Keys(got)))
	}
	patched, err := templates.Patch(ctx, "template-03", types.StrategicMergePatchType, []byte(`{"template":{"spec":{"containers":[{"name":"main","image":"other:1"}]}}}`), metav1.PatchOptions{})
	if err != nil || patched.Generation != 2 || patched.Template.Spec.Containers[0].Image != "other:1" {
		t.Errorf("patched %+v, %v", patched, err)
	}
	var deleted corev1.PodTemplate
	if err := overTLS(t, s).CoreV1().RESTClient().Delete().Namespace("default").Resource("podtemplates").Name("template-03").Do(ctx).Into(&deleted); err != nil || deleted.Name != "template-03" {
		t.Errorf("deleted %v, %v", deleted.Name, err)
	}
	if err := templates.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if list, err := templates.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left are %d, %v", len(list.Items), err)
	}
}

// TestDaemonSets: changes of the template are counted, whatever a client says of
// the count, and the status is a way of its own.
func TestDaemonSets(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	sets := overTLS(t, s).AppsV1().DaemonSets("default")
	o := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "0"}},
		Spec:       appsv1.DaemonSetSpec{Selector: selecting(), Template: template(corev1.RestartPolicyAlways)},
		Status:     appsv1.DaemonSetStatus{NumberReady: 7},
	}
	o, err := sets.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := func(o *appsv1.DaemonSet) string { return o.Annotations[appsv1.DeprecatedTemplateGeneration] }
	if count(o) != "1" || o.Generation != 1 || o.Status.NumberReady != 0 {
		t.Errorf("created with count %s, generation %d, status %v", count(o), o.Generation, o.Status)
	}
	o.Annotations[appsv1.DeprecatedTemplateGeneration] = "40"
	o.Spec.Template.Spec.Containers[0].Image = "other:1"
	if o, err = sets.Update(ctx, o, metav1.UpdateOptions{}); err != nil || count(o) != "2" || o.Generation != 2 {
		t.Fatalf("updated: %v, %v", o, err)
	}
	o.Annotations = nil
	o.Status.NumberReady = 3
	if o, err = sets.UpdateStatus(ctx, o, metav1.UpdateOptions{}); err != nil || count(o) != "2" || o.Generation != 2 || o.Status.NumberReady != 3 {
		t.Fatalf("status: %v, %v", o, err)
	}
	o.Annotations[appsv1.DeprecatedTemplateGeneration] = "many"
	if _, err := sets.Update(ctx, o, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a count that is no number: %v", err)
	}
	o.Annotations[appsv1.DeprecatedTemplateGeneration] = "2"
	o.Spec.Selector.MatchLabels["app"] = "b"
	if _, err := sets.Update(ctx, o, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("another selector: %v", err)
	}
}

// TestStatefulSets: a set is scaled by its subresource, and claims' templates are
// for good.
func TestStatefulSets(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	sets := c.AppsV1().StatefulSets("default")
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	o, err := sets.Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.StatefulSetSpec{
		ServiceName: "web", Selector: selecting(), Template: template(corev1.RestartPolicyAlways), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// In protobuf objects within objects have no kind.
	raw, err := c.AppsV1().RESTClient().Get().Namespace("default").Resource("statefulsets").Name("s").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil || !strings.Contains(string(raw), `"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1",`) {
		t.Errorf("claim's template in %s, %v", raw, err)
	}
	scale, err := sets.GetScale(ctx, "s", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 || scale.Status.Selector != "app=a" {
		t.Fatalf("scale %+v, %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if scale, err = sets.UpdateScale(ctx, "s", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 5 {
		t.Fatalf("scaled %+v, %v", scale, err)
	}
	if _, err = sets.Patch(ctx, "s", types.StrategicMergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	if o, err = sets.Get(ctx, "s", metav1.GetOptions{}); err != nil || *o.Spec.Replicas != 4 || o.Generation != 3 {
		t.Fatalf("after both: %+v, %v", o, err)
	}
	o.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To("fast")
	if _, err := sets.Update(ctx, o, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "updates to statefulset spec for fields other than") {
		t.Errorf("another claim: %v", err)
	}
}
