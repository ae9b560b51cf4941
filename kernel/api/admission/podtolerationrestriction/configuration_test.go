package podtolerationrestriction

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// What the cluster's configuration says holds where a namespace says nothing, and an
// empty annotation says something.
func TestCluster(t *testing.T) {
	namespace := func(name string, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	client := fake.NewClientset(namespace("plain", nil), namespace("empty", map[string]string{DefaultsAnnotation: "", AllowedAnnotation: "[]"}))
	factory := informers.NewSharedInformerFactory(client, 0)
	p, err := New(client, factory, []byte(`apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
kind: Configuration
default: [{key: gpu, operator: Exists}]
whitelist: [{key: gpu, operator: Exists}]
`))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	for name, test := range map[string]struct {
		namespace string
		has       []corev1.Toleration
		want      int
		fault     string
	}{
		"default of the cluster":     {"plain", nil, 1, ""},
		"not allowed by the cluster": {"plain", []corev1.Toleration{exists("other", "")}, 2, "conflict with its cluster whitelist"},
		"no default here":            {"empty", nil, 0, ""},
		"everything allowed here":    {"empty", []corev1.Toleration{exists("other", "")}, 1, ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: test.has}}
		a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), test.namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
		err := p.Admit(t.Context(), a, nil)
		if err == nil {
			err = p.Validate(t.Context(), a, nil)
		}
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) || len(pod.Spec.Tolerations) != test.want {
			t.Errorf("%s: %v, %v", name, err, pod.Spec.Tolerations)
		}
	}
}

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"
	for content, fault := range map[string]string{
		"default: []":                                              "it must be Configuration",
		head + "defaults: []":                                      "unknown field",
		head + "default: [{value: x}]":                             "operator must be Exists when `key` is empty",
		head + "default: [{key: 'a b'}]":                           "default[0].key",
		head + "whitelist: [{key: a, operator: Near}]":             "whitelist[0].operator: Unsupported value",
		head + "whitelist: [{key: a, effect: Never}]":              "whitelist[0].effect: Unsupported value",
		head + "whitelist: [{key: a, operator: Exists, value: x}]": "value must be empty",
		head + "default: [{key: a, tolerationSeconds: 1}]":         "effect must be 'NoExecute'",
	} {
		if _, err := load([]byte(content)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", content, err)
		}
	}
}
