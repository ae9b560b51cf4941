package namespaces

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// request is a create of a pod, unless it is of a namespace.
func request(namespace, kind string, dryRun bool) admission.Attributes {
	resource := strings.ToLower(kind) + "s"
	return admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind(kind), namespace, "o", corev1.SchemeGroupVersion.WithResource(resource), "", admission.Create, nil, dryRun, nil)
}

// newInformed returns a client of a cluster with a namespace that informers know, and
// one that they do not.
func newInformed(t *testing.T) (*fake.Clientset, informers.SharedInformerFactory) {
	t.Helper()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	factory := informers.NewSharedInformerFactory(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "old"}}), 0)
	factory.Core().V1().Namespaces().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return client, factory
}

// fail has the client fail with the error.
func fail(client *fake.Clientset, verb string, err error) {
	client.PrependReactor(verb, "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func TestExists(t *testing.T) {
	client, factory := newInformed(t)
	p := NewExists(client, factory)
	for _, tc := range []struct {
		namespace, kind string
		asked           int
		fault           string
	}{
		{"", "Node", 0, ""},
		{"none", "Namespace", 0, ""},
		{"old", "Pod", 0, ""},
		{"new", "Pod", 1, ""},
		{"none", "Pod", 1, `namespaces "none" not found`},
	} {
		client.ClearActions()
		err := p.Validate(t.Context(), request(tc.namespace, tc.kind, false), nil)
		if (err == nil) != (tc.fault == "") || err != nil && (!apierrors.IsNotFound(err) || err.Error() != tc.fault) {
			t.Errorf("%s in %q: %v, want %q", tc.kind, tc.namespace, err, tc.fault)
		}
		if n := len(client.Actions()); n != tc.asked {
			t.Errorf("%s in %q: %d requests, want %d", tc.kind, tc.namespace, n, tc.asked)
		}
	}
	for op, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: true, admission.Connect: false} {
		if p.Handles(op) != want {
			t.Errorf("handles %s: %t", op, !want)
		}
	}
	fail(client, "get", apierrors.NewServiceUnavailable("broken"))
	if err := p.Validate(t.Context(), request("new", "Pod", false), nil); !apierrors.IsInternalError(err) {
		t.Errorf("nobody knows: %v", err)
	}
}

func TestAutoProvision(t *testing.T) {
	client, factory := newInformed(t)
	p := NewAutoProvision(client, factory)
	for _, tc := range []struct {
		namespace, kind string
		dryRun          bool
		asked           int
	}{
		{"", "Node", false, 0},
		{"none", "Namespace", false, 0},
		{"old", "Pod", false, 0},
		{"new", "Pod", false, 1}, // it is there already
		{"dry", "Pod", true, 0},
		{"made", "Pod", false, 1},
	} {
		client.ClearActions()
		if err := p.Admit(t.Context(), request(tc.namespace, tc.kind, tc.dryRun), nil); err != nil {
			t.Errorf("%s in %q: %v", tc.kind, tc.namespace, err)
		}
		if n := len(client.Actions()); n != tc.asked {
			t.Errorf("%s in %q: %d requests, want %d", tc.kind, tc.namespace, n, tc.asked)
		}
	}
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Name+list.Items[1].Name != "madenew" {
		t.Errorf("namespaces: %v, %v", list, err)
	}
	for op, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: false, admission.Delete: false, admission.Connect: false} {
		if p.Handles(op) != want {
			t.Errorf("handles %s: %t", op, !want)
		}
	}
	fail(client, "create", apierrors.NewServiceUnavailable("broken"))
	if err := p.Admit(t.Context(), request("other", "Pod", false), nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("it cannot be made: %v", err)
	}
}
