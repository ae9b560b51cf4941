package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHostileApply: what is sent as an apply patch is applied or refused by a clear
// word, and the server goes on.
func TestHostileApply(t *testing.T) {
	s := start(t, t.TempDir())
	maps := overTLS(t, s).CoreV1().ConfigMaps("default")
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	var bomb strings.Builder
	bomb.WriteString(head + "a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	for name, tc := range map[string]struct {
		body string
		want []int32
	}{
		"a key twice":           {head + "data: {a: b}\ndata: {c: d}\n", []int32{400}},
		"a key twice below":     {head + "data: {a: b, a: c}\n", []int32{400}},
		"lists without end":     {head + "data: " + strings.Repeat("[", 100_000), []int32{400}},
		"maps without end":      {head + "data: " + strings.Repeat("{a: ", 50_000) + strings.Repeat("}", 50_000), []int32{400}},
		"aliases of aliases":    {bomb.String(), []int32{400}},
		"more than a body":      {head + "data: {a: " + strings.Repeat("x", 4<<20) + "}\n", []int32{413}},
		"no object":             {"[]", []int32{400}},
		"nothing":               {"", []int32{400}},
		"another name":          {strings.Replace(head, "name: x", "name: z", 1), []int32{400}},
		"another kind":          {strings.Replace(head, "ConfigMap", "Secret", 1), []int32{400}},
		"another group":         {strings.Replace(head, "v1", "apps/v1", 1), []int32{400}},
		"managed fields of own": {head[:len(head)-2] + ", managedFields: [{manager: root, operation: Apply, apiVersion: v1}]}\n", []int32{400}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := maps.Patch(t.Context(), "x", types.ApplyPatchType, []byte(tc.body), metav1.PatchOptions{FieldManager: "m", FieldValidation: metav1.FieldValidationStrict})
			refusedWith(t, err, tc.want)
		})
	}
	for name, manager := range map[string]string{"no manager": "", "a long manager": strings.Repeat("m", 129), "a manager of control characters": "a\x00b"} {
		t.Run(name, func(t *testing.T) {
			_, err := maps.Patch(t.Context(), "x", types.ApplyPatchType, []byte(head), metav1.PatchOptions{FieldManager: manager})
			refusedWith(t, err, []int32{400, 422})
		})
	}
	if _, err := maps.Patch(t.Context(), "x", types.ApplyPatchType, []byte(head+"data: {a: b}\n"), metav1.PatchOptions{FieldManager: "m"}); err != nil {
		t.Errorf("a good patch after them: %v", err)
	}
}

// refusedWith asks for a refusal of one of the codes.
func refusedWith(t *testing.T, err error, codes []int32) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("got %v, want a refusal with %v", err, codes)
	}
	for _, c := range codes {
		if status.Status().Code == c {
			return
		}
	}
	text := err.Error()
	t.Errorf("refused with %d: %s; want %v", status.Status().Code, text[:min(len(text), 300)], codes)
}

// TestManyManagers: however many write to an object, the list of who wrote what stays
// short, and what a client writes into that list names fields that there are.
func TestManyManagers(t *testing.T) {
	s := start(t, t.TempDir())
	maps := overTLS(t, s).CoreV1().ConfigMaps("default")
	cm, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "many"}}, metav1.CreateOptions{FieldManager: "first"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		patch := fmt.Sprintf(`{"data":{"k%d":"v"}}`, i)
		if cm, err = maps.Patch(t.Context(), "many", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fmt.Sprintf("m%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	// Ten managers that update, and one entry for those before them (FieldManager's bound).
	if n := len(cm.ManagedFields); n > 11 {
		t.Errorf("%d managers are kept", n)
	}
	entry := func(fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: "forged", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	for name, list := range map[string][]metav1.ManagedFieldsEntry{
		"fields of no form": {entry(`{"f:data":{"x:y":{}}}`)},
		"an operation":      {{Manager: "forged", Operation: "Own", APIVersion: "v1"}},
		"a form":            {{Manager: "forged", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV9"}},
		"deep fields":       {entry(strings.Repeat(`{"f:a":`, 20_000) + "{}" + strings.Repeat("}", 20_000))},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := maps.Get(t.Context(), "many", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			now.ManagedFields = list
			now.Data["seen"] = name
			_, err = maps.Update(t.Context(), now, metav1.UpdateOptions{FieldManager: "m"})
			if err != nil {
				refusedWith(t, err, []int32{400, 413, 422})
				return
			}
			now, err = maps.Get(t.Context(), "many", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if data, err := json.Marshal(now.ManagedFields); err != nil || strings.Contains(string(data), "x:y") || strings.Contains(string(data), `"f:a":{"f:a"`) {
				t.Errorf("kept: %.300s, %v", data, err)
			}
		})
	}
}
