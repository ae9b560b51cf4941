package api_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// REG-5: an event is one object under both of its groups.
func TestEvents(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	ref := corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p", APIVersion: "v1"}
	if _, err := c.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "core"}, InvolvedObject: ref, Reason: "Started", Message: "from core",
		Type: corev1.EventTypeNormal, Count: 2, Source: corev1.EventSource{Component: "test"},
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.EventsV1().Events("default").Get(ctx, "core", metav1.GetOptions{})
	if err != nil || got.Note != "from core" || got.Regarding != ref || got.DeprecatedCount != 2 || got.DeprecatedSource.Component != "test" {
		t.Errorf("core event through events.k8s.io: %+v, %v", got, err)
	}
	if _, err := c.EventsV1().Events("default").Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, EventTime: metav1.NowMicro(), Regarding: ref, Reason: "Stopped", Note: "from events",
		Type: corev1.EventTypeWarning, Action: "Stop", ReportingController: "test.example/controller", ReportingInstance: "one",
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	old, err := c.CoreV1().Events("default").Get(ctx, "new", metav1.GetOptions{})
	if err != nil || old.Message != "from events" || old.InvolvedObject != ref || old.ReportingController != "test.example/controller" {
		t.Errorf("events.k8s.io event through core: %+v, %v", old, err)
	}
	list, err := c.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=p,type=Warning"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "new" {
		t.Errorf("selected: %v, %v", list, err)
	}
}

// PCR-2: an object of another namespace than the request's is refused.
func TestNamespaceMismatch(t *testing.T) {
	s := start(t, t.TempDir())
	p := pod("p")
	p.Namespace = "kube-system"
	err := overTLS(t, s).CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Body(p).Do(t.Context()).Error()
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "the namespace of the provided object does not match the namespace sent on the request") {
		t.Errorf("got %v", err)
	}
}

// A namespace is terminating until its finalizers have gone; the system's own
// are there from the start, with the service of the API itself.
func TestNamespaces(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if _, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"system-cluster-critical", "system-node-critical"} {
		if _, err := c.SchedulingV1().PriorityClasses().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	svc, err := c.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("kubernetes service: %v, %v", svc, err)
	}
	slice, err := c.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || len(slice.Ports) != 1 || int(*slice.Ports[0].Port) != s.Port() {
		t.Errorf("kubernetes endpoints: %v, %v", slice, err)
	}
	ns, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "doomed"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Namespaces().Delete(ctx, "doomed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns, err = c.CoreV1().Namespaces().Get(ctx, "doomed", metav1.GetOptions{}); err != nil || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
		t.Fatalf("terminating namespace: %v, %v", ns, err)
	}
	ns.Status.Conditions = []corev1.NamespaceCondition{{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue}}
	if ns, err = c.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, "example.com/hold")
	if ns, err = c.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns, err = c.CoreV1().Namespaces().Get(ctx, "doomed", metav1.GetOptions{}); err != nil || len(ns.Spec.Finalizers) != 2 || len(ns.Status.Conditions) != 1 {
		t.Fatalf("namespace with finalizers after updates: %v, %v", ns, err)
	}
	ns.Spec.Finalizers = nil
	if _, err := c.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Namespaces().Get(ctx, "doomed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("finalized namespace: %v", err)
	}
}
