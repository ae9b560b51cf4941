package statuspatch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// FuzzPatch: a patch that is taken apart here gives the status that the general way gives:
// a strategic merge of the whole pod, as the machinery's handler does it. What the general way refuses is
// refused here.
func FuzzPatch(f *testing.F) {
	for _, body := range []string{
		`{"status":{"phase":"Running"}}`, `{"metadata":{"uid":"u"},"status":{"phase":null}}`,
		`{"status":{"$setElementOrder/conditions":[{"type":"B"},{"type":"A"}],"conditions":[{"type":"B","status":"True"}],"podIPs":[{"ip":"10.0.0.1"}]}}`,
		`{"status":{"conditions":[{"$patch":"delete","type":"A"}]}}`, `{"status":{"$patch":"replace","hostIP":"1"}}`, `{"status":{"$retainKeys":["phase"],"phase":"x"}}`,
		`{"status":{"containerStatuses":[{"name":"c","restartCount":1e1,"state":{"running":{"startedAt":"2026-01-02T03:04:05.6Z"}}}]}}`,
		`{"status":{"$deleteFromPrimitiveList/x":[1]}}`, `{"status":{"startTime":""}}`, `{"status":{"observedGeneration":9223372036854775807}}`,
		`{"status":{"resourceClaimStatuses":[{"name":"a","$patch":"merge"}],"PHASE":"x"}}`,
	} {
		f.Add([]byte(body))
	}
	live := &corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodPending, PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}},
		Conditions:        []corev1.PodCondition{{Type: "A", Status: "True"}, {Type: "C", Status: "False", Reason: "r"}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: 1}},
	}}
	was := live.DeepCopy()
	f.Fuzz(func(t *testing.T, body []byte) {
		p, ok := read(body)
		if !ok || len(body) > 4096 {
			return
		}
		got, err := p.merge(&live.Status, func(runtime.Object) {})
		if !equality.Semantic.DeepEqual(live, was) {
			t.Fatalf("%q changed the pod that others read", body)
		}
		if err != nil {
			return // the general handler answers
		}
		asked, pod := map[string]any{}, &corev1.Pod{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &asked); err != nil {
			t.Fatalf("%q gives %+v, and the general way cannot read it: %v", body, got, err)
		}
		before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := strategicpatch.StrategicMergeMapPatch(before, asked, &corev1.Pod{})
		if err != nil {
			t.Fatalf("%q gives %+v, and the general way refuses it: %v", body, got, err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, pod, true); err != nil {
			t.Fatalf("%q gives %+v, and the general way refuses it: %v", body, got, err)
		}
		want, err := stored(&pod.Status)
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%q gives\n%+v, the general way\n%+v", body, got, want)
		}
	})
}
