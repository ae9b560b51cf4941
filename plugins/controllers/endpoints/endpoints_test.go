package endpoints

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/sdk/controller"
)

// The way of a service: endpoints appear, follow the pods and their labels,
// come back when deleted, and go with the service; a leftover goes too.
func TestController(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := fake.NewClientset(
		&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "leftover", Namespace: "ns", ResourceVersion: "1"}},
		pod("a", "10.1.0.1", true),
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	factory.Start(stop)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(stop)
		factory.Shutdown()
	}()
	core := client.CoreV1()
	eventually := func(what string, check func(*corev1.Endpoints, error) bool) *corev1.Endpoints {
		t.Helper()
		var got *corev1.Endpoints
		if err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			var err error
			got, err = core.Endpoints("ns").Get(ctx, "web", metav1.GetOptions{})
			return check(got, err), nil
		}); err != nil {
			t.Fatalf("%s: %q %v", what, words(got.Subsets), got.Labels)
		}
		return got
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	subsets := func(want string) func(*corev1.Endpoints, error) bool {
		return func(e *corev1.Endpoints, err error) bool { return err == nil && words(e.Subsets) == want }
	}

	_, err = core.Services("ns").Create(ctx, service(), metav1.CreateOptions{}) // EPC-1, EPC-4
	must(err)
	got := eventually("created", subsets("10.1.0.1|:http/8080"))
	// EPC-15 and the label of this controller.
	if got.Labels["tier"] != "front" || got.Labels[LabelManagedBy] != Name || len(got.Labels) != 2 {
		t.Errorf("labels %v", got.Labels)
	}
	b := pod("b", "10.1.0.2", false)
	_, err = core.Pods("ns").Create(ctx, b, metav1.CreateOptions{}) // EPC-5
	must(err)
	eventually("a pod that is not ready", subsets("10.1.0.1|10.1.0.2:http/8080"))
	b = pod("b", "10.1.0.2", true)
	b.ResourceVersion = "2"
	_, err = core.Pods("ns").Update(ctx, b, metav1.UpdateOptions{})
	must(err)
	eventually("ready", subsets("10.1.0.1,10.1.0.2|:http/8080"))
	b = pod("b", "10.1.0.2", true)
	b.ResourceVersion, b.Labels = "3", map[string]string{"app": "other"}
	_, err = core.Pods("ns").Update(ctx, b, metav1.UpdateOptions{}) // EPC-6
	must(err)
	eventually("its labels changed", subsets("10.1.0.1|:http/8080"))

	must(core.Endpoints("ns").Delete(ctx, "web", metav1.DeleteOptions{}))
	eventually("deleted by hand", subsets("10.1.0.1|:http/8080"))
	must(core.Services("ns").Delete(ctx, "web", metav1.DeleteOptions{})) // EPC-8
	eventually("service gone", func(_ *corev1.Endpoints, err error) bool { return apierrors.IsNotFound(err) })
	if _, err := core.Endpoints("ns").Get(ctx, "leftover", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("leftover: %v", err)
	}
}

// What one sync writes: nothing without a difference (EPC-13), nothing for a
// service that is not the controller's, the headless label, the annotations.
func TestSync(t *testing.T) {
	changed := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	readySince := pod("a", "10.1.0.1", true, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = changed })
	right := func(change ...func(*corev1.Endpoints)) *corev1.Endpoints {
		e := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", ResourceVersion: "7", Labels: map[string]string{"tier": "front", LabelManagedBy: Name}},
			Subsets:    subsetsOf(service(), []*corev1.Pod{readySince}),
		}
		for _, f := range change {
			f(e)
		}
		return e
	}
	for name, tc := range map[string]struct {
		service *corev1.Service
		current *corev1.Endpoints
		verb    string
		check   func(*corev1.Endpoints) bool
	}{
		"create":          {service(), nil, "create", func(e *corev1.Endpoints) bool { return e.ResourceVersion == "" }}, // EPC-14
		"nothing differs": {service(), right(), "", nil},
		"only a version":  {service(), right(func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].TargetRef.ResourceVersion = "99" }), "", nil},
		"labels differ":   {service(), right(func(e *corev1.Endpoints) { e.Labels["tier"] = "back" }), "update", func(e *corev1.Endpoints) bool { return e.Labels["tier"] == "front" }},
		"subsets differ":  {service(), right(func(e *corev1.Endpoints) { e.Subsets = nil }), "update", func(e *corev1.Endpoints) bool { return words(e.Subsets) == "10.1.0.1|:http/8080" }},
		"over-capacity mark goes": {service(), right(func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{corev1.EndpointsOverCapacity: "truncated"}
		}), "update", func(e *corev1.Endpoints) bool { _, ok := e.Annotations[corev1.EndpointsOverCapacity]; return !ok }},
		"headless": {service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), nil, "create", func(e *corev1.Endpoints) bool {
			_, ok := e.Labels[corev1.IsHeadlessService]
			return ok
		}},
		"trigger time": {service(func(s *corev1.Service) { s.CreationTimestamp = changed }), nil, "create", func(e *corev1.Endpoints) bool {
			return e.Annotations[corev1.EndpointsLastChangeTriggerTime] == "2026-01-02T03:04:05Z"
		}},
		"no selector":   {service(func(s *corev1.Service) { s.Spec.Selector = nil }), nil, "", nil},
		"external name": {service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			factory := informers.NewSharedInformerFactory(client, 0)
			runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory})
			if err != nil {
				t.Fatal(err)
			}
			e := runner.(*endpoints)
			defer e.loop.Close()
			defer e.changes.Close()
			add := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			add(e.informers.services.GetStore().Add(tc.service))
			add(e.informers.pods.GetStore().Add(readySince))
			if tc.current != nil {
				add(e.informers.endpoints.GetStore().Add(tc.current))
				add(client.Tracker().Add(tc.current.DeepCopy()))
			}
			if err := e.sync(t.Context(), "ns/web"); err != nil {
				t.Fatal(err)
			}
			verb := ""
			for _, a := range client.Actions() {
				verb = a.GetVerb()
			}
			if verb != tc.verb {
				t.Fatalf("verb %q, want %q", verb, tc.verb)
			}
			if tc.check != nil {
				written, err := client.CoreV1().Endpoints("ns").Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil || !tc.check(written) {
					t.Errorf("wrote %+v, %v", written, err)
				}
			}
		})
	}
}
