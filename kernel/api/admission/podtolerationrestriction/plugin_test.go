package podtolerationrestriction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func exists(key string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
}

func equals(key, value string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: effect}
}

func within(t corev1.Toleration, seconds int64) corev1.Toleration {
	t.TolerationSeconds = &seconds
	return t
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		wide, t corev1.Toleration
		want    bool
	}{
		{exists("", ""), equals("a", "b", "NoSchedule"), true},
		{exists("a", ""), equals("a", "b", "NoSchedule"), true},
		{exists("a", "NoExecute"), equals("a", "b", "NoSchedule"), false},
		{exists("b", ""), equals("a", "b", "NoSchedule"), false},
		{equals("a", "b", ""), equals("a", "b", "NoSchedule"), true},
		{equals("a", "c", ""), equals("a", "b", "NoSchedule"), false},
		{equals("a", "b", ""), exists("a", "NoSchedule"), false},
		{exists("a", "NoSchedule"), exists("a", ""), false},
		{within(exists("a", "NoExecute"), 10), within(equals("a", "b", "NoExecute"), 5), true},
		{within(exists("a", "NoExecute"), 10), within(equals("a", "b", "NoExecute"), 15), false},
		{within(exists("a", "NoExecute"), 10), equals("a", "b", "NoExecute"), false},
		{corev1.Toleration{Key: "a", Value: "b"}, equals("a", "b", ""), true}, // no operator is Equal
	} {
		if got := covers(tc.wide, tc.t); got != tc.want {
			t.Errorf("covers(%v, %v) = %t", tc.wide, tc.t, got)
		}
	}
}

// Defaults are added on create alone, what is not allowed is refused on update
// too, and an annotation that cannot be read refuses everything.
func TestPlugin(t *testing.T) {
	namespace := func(name string, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	const gpu = `[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]`
	client := fake.NewClientset(
		namespace("plain", nil), namespace("default", map[string]string{DefaultsAnnotation: gpu}), namespace("allowed", map[string]string{AllowedAnnotation: gpu}),
		namespace("empty", map[string]string{AllowedAnnotation: ""}), namespace("broken", map[string]string{AllowedAnnotation: "gpu"}),
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	p, err := New(client, factory, nil)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	for name, tc := range map[string]struct {
		op        admission.Operation
		namespace string
		has       []corev1.Toleration
		requests  bool
		want      int
		refused   bool
	}{
		"nothing":                   {admission.Create, "plain", nil, false, 0, false},
		"not best effort":           {admission.Create, "plain", nil, true, 1, false},
		"a default":                 {admission.Create, "default", nil, false, 1, false},
		"a default that is there":   {admission.Create, "default", []corev1.Toleration{exists("", "")}, false, 1, false},
		"no default on update":      {admission.Update, "default", nil, false, 0, false},
		"allowed":                   {admission.Create, "allowed", []corev1.Toleration{equals("gpu", "x", "NoSchedule")}, false, 1, false},
		"not allowed":               {admission.Create, "allowed", []corev1.Toleration{exists("gpu", "")}, false, 1, true},
		"everything is not allowed": {admission.Update, "allowed", []corev1.Toleration{exists("", "")}, false, 1, true},
		"the list is empty":         {admission.Create, "empty", []corev1.Toleration{exists("", "")}, false, 1, false},
		"cannot be read":            {admission.Create, "broken", []corev1.Toleration{exists("gpu", "NoSchedule")}, false, 1, true},
		"no namespace":              {admission.Create, "gone", []corev1.Toleration{exists("gpu", "")}, false, 1, true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "p"}, Spec: corev1.PodSpec{Tolerations: tc.has, Containers: []corev1.Container{{Name: "c"}}}}
		if tc.requests {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}
		a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), tc.namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "", tc.op, nil, false, nil)
		err := p.Admit(t.Context(), a, nil)
		if err == nil {
			err = p.Validate(t.Context(), a, nil)
		}
		if (err != nil) != tc.refused || len(pod.Spec.Tolerations) != tc.want {
			t.Errorf("%s: %v, %v", name, err, pod.Spec.Tolerations)
		}
	}
}
