package podnodeselector

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// A namespace's annotation counts, the configuration's selector where there is none;
// what a namespace allows bounds both.
func TestPlugin(t *testing.T) {
	namespace := func(name string, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	client := fake.NewClientset(namespace("plain", nil), namespace("bounded", nil),
		namespace("own", map[string]string{Annotation: "pool=gpu"}), namespace("empty", map[string]string{Annotation: ""}))
	factory := informers.NewSharedInformerFactory(client, 0)
	p, err := New(client, factory, []byte("podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: pool=general, bounded: 'pool=general,disk=ssd'}"))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	for name, test := range map[string]struct {
		namespace string
		has, want map[string]string
		fault     string
	}{
		"default":              {"plain", nil, map[string]string{"pool": "general"}, ""},
		"against the default":  {"plain", map[string]string{"pool": "gpu"}, nil, "conflicts with its namespace node label selector"},
		"of the namespace":     {"own", map[string]string{"a": "b"}, map[string]string{"pool": "gpu", "a": "b"}, ""},
		"none":                 {"empty", nil, nil, ""},
		"allowed":              {"bounded", map[string]string{"disk": "ssd"}, map[string]string{"pool": "general", "disk": "ssd"}, ""},
		"another value":        {"bounded", map[string]string{"disk": "hdd"}, nil, "conflict with its namespace whitelist"},
		"another label":        {"bounded", map[string]string{"zone": "a"}, nil, "conflict with its namespace whitelist"},
		"an empty other label": {"bounded", map[string]string{"zone": ""}, nil, "conflict with its namespace whitelist"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: test.has}}
		a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), test.namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
		err := p.Admit(t.Context(), a, nil)
		if err == nil {
			err = p.Validate(t.Context(), a, nil)
		}
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) || err == nil && !maps.Equal(pod.Spec.NodeSelector, test.want) {
			t.Errorf("%s: %v, %v", name, err, pod.Spec.NodeSelector)
		}
	}
	service := admission.NewAttributesRecord(&corev1.Service{}, nil, corev1.SchemeGroupVersion.WithKind("Service"), "bounded", "s", corev1.SchemeGroupVersion.WithResource("services"), "", admission.Create, nil, false, nil)
	if err := p.Validate(t.Context(), service, nil); err != nil {
		t.Errorf("a service: %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	for content, fault := range map[string]string{
		"podNodeSelectorPluginConfig: {a: 'x in (y)'}": "podNodeSelectorPluginConfig.a",
		"podNodeSelector: {}":                          "unknown field",
	} {
		if _, err := New(nil, informers.NewSharedInformerFactory(fake.NewClientset(), 0), []byte(content)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", content, err)
		}
	}
}
