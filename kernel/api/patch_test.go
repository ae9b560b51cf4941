package api_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// API-4: create, read, update, delete, patch in each form, dry run.
func TestWrites(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	maps := overTLS(t, s).CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	name := made.Name
	if !strings.HasPrefix(name, "a-") || made.UID == "" || made.ResourceVersion == "" {
		t.Fatalf("created object lacks what the server sets: %+v", made.ObjectMeta)
	}
	if len(made.ManagedFields) != 1 || made.ManagedFields[0].Manager != "one" || made.ManagedFields[0].FieldsV1 == nil {
		t.Errorf("managed fields after create: %+v", made.ManagedFields)
	}
	for _, p := range []struct {
		kind types.PatchType
		body string
		want string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/data/k","value":"json"}]`, "json"},
		{types.MergePatchType, `{"data":{"k":"merge"}}`, "merge"},
		{types.StrategicMergePatchType, `{"data":{"k":"strategic"}}`, "strategic"},
	} {
		got, err := maps.Patch(ctx, name, p.kind, []byte(p.body), metav1.PatchOptions{})
		if err != nil || got.Data["k"] != p.want {
			t.Errorf("%s: got %v, %v", p.kind, got, err)
		}
	}
	// RV-2: an update at an old version is refused.
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update at an old version: %v", err)
	}
	dry, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"k":"dry"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.Data["k"] != "dry" {
		t.Errorf("dry run: %v, %v", dry, err)
	}
	if got, err := maps.Get(ctx, name, metav1.GetOptions{}); err != nil || got.Data["k"] != "strategic" {
		t.Errorf("after dry run: %v, %v", got, err)
	}
	_, err = maps.Patch(ctx, name, types.MergePatchType, []byte(`{"nope":1}`), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		t.Errorf("unknown field under strict validation: %v", err)
	}
	if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v", err)
	}
}

// API-4: server-side apply tells owners apart.
func TestApply(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	maps := overTLS(t, s).CoreV1().ConfigMaps("default")
	want := applycorev1.ConfigMap("shared", "default").WithData(map[string]string{"a": "1", "b": "1"})
	if _, err := maps.Apply(ctx, want, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		t.Fatal(err)
	}
	other := applycorev1.ConfigMap("shared", "default").WithData(map[string]string{"a": "2"})
	_, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("apply over another's field: %v", err)
	}
	got, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || got.Data["a"] != "2" || got.Data["b"] != "1" {
		t.Errorf("forced apply: %v, %v", got, err)
	}
	// What the first owner no longer applies goes.
	got, err = maps.Apply(ctx, applycorev1.ConfigMap("shared", "default"), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil || got.Data["a"] != "2" || len(got.Data) != 1 {
		t.Errorf("apply of less: %v, %v", got, err)
	}
}
