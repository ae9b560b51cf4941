package statuspatch

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What is taken apart here is a status, with the UID of the pod or nothing beside it.
func TestRead(t *testing.T) {
	for body, want := range map[string]bool{
		`{"status":{"phase":"Running"}}`:                        true,
		`{"metadata":{"uid":"u"},"status":{"phase":"Running"}}`: true,
		`{"metadata":{},"status":{}}`:                           true,
		``:                                                      false,
		`null`:                                                  false,
		`[]`:                                                    false,
		`"status"`:                                              false,
		`{}`:                                                    false,
		`{"status":null}`:                                       false,
		`{"status":[]}`:                                         false,
		`{"status":{}} x`:                                       false,
		`{"status":{"phase":"a","phase":"b"}}`:                  false,
		`{"status":{},"status":{}}`:                             false,
		`{"Status":{}}`:                                         false,
		`{"$patch":"replace","status":{}}`:                      false,
		`{"metadata":{"uid":"u","resourceVersion":"1"},"status":{}}`:       false,
		`{"metadata":{"uid":""},"status":{}}`:                              false,
		`{"metadata":{"uid":null},"status":{}}`:                            false,
		`{"metadata":{"$patch":"delete"},"status":{}}`:                     false,
		`{"metadata":{"$retainKeys":["uid"],"uid":"u"},"status":{}}`:       false,
		`{"metadata":null,"status":{}}`:                                    false,
		`{"spec":{},"status":{}}`:                                          false,
		`{"$setElementOrder/x":[],"status":{}}`:                            false,
		strings.Repeat(`{"status":`, 20_000) + strings.Repeat(`}`, 20_000): false,
	} {
		if _, ok := read([]byte(body)); ok != want {
			t.Errorf("%.80s: %t, want %t", body, ok, want)
		}
	}
}

// A patch that is merged a second time, because another write came between, is the same.
func TestMergeTwice(t *testing.T) {
	p, ok := read([]byte(`{"status":{"$setElementOrder/conditions":[{"type":"B"},{"type":"A"}],"conditions":[{"type":"B","status":"True"}],"podIPs":[{"ip":"10.0.0.1"}],"phase":null}}`))
	if !ok {
		t.Fatal("not read")
	}
	status := &corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: "A", Status: "True"}}}
	was := status.DeepCopy()
	defaults := func(obj runtime.Object) { obj.(*corev1.Pod).Status.PodIP = "10.0.0.1" }
	first, err := p.merge(status, defaults)
	if err != nil {
		t.Fatal(err)
	}
	want := corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, Conditions: []corev1.PodCondition{{Type: "B", Status: "True"}, {Type: "A", Status: "True"}}}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("%+v, want %+v", first, want)
	}
	second, err := p.merge(status, defaults)
	if err != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("%+v, the second time %+v, %v", first, second, err)
	}
	if !reflect.DeepEqual(status, was) {
		t.Errorf("the status changed: %+v", status)
	}
	third, err := p.merge(&first, defaults)
	if err != nil || !reflect.DeepEqual(third, first) {
		t.Errorf("over itself: %+v, %v", third, err)
	}
}

// What cannot be a status is refused, and so is a field that there is none of.
func TestMergeRefuses(t *testing.T) {
	for _, body := range []string{
		`{"status":{"nothing":1}}`, `{"status":{"phase":7}}`, `{"status":{"conditions":{}}}`, `{"status":{"conditions":[{}]}}`,
		`{"status":{"startTime":"yesterday"}}`, `{"status":{"$patch":"odd"}}`, `{"status":{"conditions":[{"$patch":"odd","type":"A"}]}}`,
		`{"status":{"$setElementOrder/conditions":1}}`, `{"status":{"observedGeneration":1.5}}`,
	} {
		p, ok := read([]byte(body))
		if !ok {
			t.Errorf("%s is not read", body)
			continue
		}
		if got, err := p.merge(&corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "A", Status: "True"}}}, func(runtime.Object) {}); err == nil {
			t.Errorf("%s gives %+v", body, got)
		}
	}
}

// A status is as it is stored: whole seconds, nothing empty that is not nil.
func TestStored(t *testing.T) {
	at := metav1.Date(2026, 1, 2, 3, 4, 5, 6789, metav1.Now().Location())
	whole := metav1.Unix(at.Unix(), 0)
	got, err := stored(&corev1.PodStatus{
		StartTime: &at, PodIPs: []corev1.PodIP{}, Conditions: []corev1.PodCondition{{Type: "A", LastTransitionTime: at}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{}, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}},
	})
	want := corev1.PodStatus{
		StartTime: &whole, Conditions: []corev1.PodCondition{{Type: "A", LastTransitionTime: whole}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: whole}}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v, %v", got, want, err)
	}
}
