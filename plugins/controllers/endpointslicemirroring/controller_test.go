package endpointslicemirroring

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pintle.dev/pintle/sdk/controller"
)

// start runs the controller; the server of the test names generated objects
// and counts generations, which the tracker of slices needs.
func start(t *testing.T, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(objects...)
	n := int64(0)
	client.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s := a.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice)
		n++
		s.Name, s.Generation, s.UID = fmt.Sprintf("%s%d", s.GenerateName, n), 1, types.UID(fmt.Sprint(n))
		return false, nil, nil
	})
	client.PrependReactor("update", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.UpdateAction).GetObject().(*discoveryv1.EndpointSlice).Generation++
		return false, nil, nil
	})
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
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(stop)
		factory.Shutdown()
		goleak.VerifyNone(t)
	})
	return client
}

// Endpoints by hand reach slices and follow every change; those of a service
// with a selector, those that ask to be left alone, and slices of others are
// not touched.
func TestController(t *testing.T) {
	service := func(name string, selector map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	named := func(name string, change func(*corev1.Endpoints)) *corev1.Endpoints {
		e := byHand(corev1.EndpointSubset{Addresses: addresses("10.0.0.1"), Ports: ports(80)})
		e.Name, e.UID = name, types.UID(name)
		if change != nil {
			change(e)
		}
		return e
	}
	client := start(t,
		service("db", nil), named("db", nil),
		service("picked", map[string]string{"a": "b"}), named("picked", nil),
		service("skipped", nil), named("skipped", func(e *corev1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"} }),
		service("election", nil), named("election", func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: "{}"}
		}),
		named("alone", nil), // no service
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine", Labels: map[string]string{
			discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: "me",
		}}, AddressType: discoveryv1.AddressTypeIPv4},
	)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			list, err := client.DiscoveryV1().EndpointSlices("ns").List(ctx, metav1.ListOptions{})
			got = nil
			for _, s := range list.Items {
				line := s.Labels[discoveryv1.LabelServiceName] + " " + strings.TrimSuffix(s.Labels[discoveryv1.LabelManagedBy], "-controller.k8s.io")
				for _, e := range s.Endpoints {
					line += " " + e.Addresses[0]
				}
				got = append(got, line)
			}
			slices.Sort(got)
			return slices.Equal(got, want), err
		}); err != nil {
			t.Fatalf("%s: got %q, want %q", what, got, want)
		}
	}
	expect("at first", "db endpointslicemirroring 10.0.0.1", "db me")
	_, err := client.CoreV1().Endpoints("ns").Update(ctx, named("db", func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("10.0.0.2", "10.0.0.3") }), metav1.UpdateOptions{})
	must(err)
	expect("other addresses", "db endpointslicemirroring 10.0.0.2 10.0.0.3", "db me")
	// Somebody empties the mirrored slice.
	list, err := client.DiscoveryV1().EndpointSlices("ns").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + Name})
	must(err)
	spoilt := list.Items[0].DeepCopy()
	spoilt.Endpoints = nil
	_, err = client.DiscoveryV1().EndpointSlices("ns").Update(ctx, spoilt, metav1.UpdateOptions{})
	must(err)
	expect("after somebody emptied it", "db endpointslicemirroring 10.0.0.2 10.0.0.3", "db me")
	must(client.DiscoveryV1().EndpointSlices("ns").Delete(ctx, spoilt.Name, metav1.DeleteOptions{}))
	expect("after somebody deleted it", "db endpointslicemirroring 10.0.0.2 10.0.0.3", "db me")
	_, err = client.CoreV1().Services("ns").Update(ctx, service("picked", nil), metav1.UpdateOptions{})
	must(err)
	expect("a service lost its selector", "db endpointslicemirroring 10.0.0.2 10.0.0.3", "db me", "picked endpointslicemirroring 10.0.0.1")
	_, err = client.CoreV1().Services("ns").Update(ctx, service("db", map[string]string{"a": "b"}), metav1.UpdateOptions{})
	must(err)
	expect("a service was given a selector", "db me", "picked endpointslicemirroring 10.0.0.1")
	_, err = client.CoreV1().Services("ns").Create(ctx, service("alone", nil), metav1.CreateOptions{})
	must(err)
	expect("the service came later", "alone endpointslicemirroring 10.0.0.1", "db me", "picked endpointslicemirroring 10.0.0.1")
	must(client.CoreV1().Services("ns").Delete(ctx, "alone", metav1.DeleteOptions{}))
	must(client.CoreV1().Endpoints("ns").Delete(ctx, "picked", metav1.DeleteOptions{}))
	expect("service and Endpoints went", "db me")
}

// What cannot be mirrored is said on the Endpoints, in upstream's words.
func TestEvents(t *testing.T) {
	e := byHand(corev1.EndpointSubset{Addresses: addresses("nowhere"), Ports: ports(80)})
	client := start(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}}, e)
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		got := list.Items[0]
		if got.Reason != "InvalidIPAddress" || got.InvolvedObject.Name != "db" || got.Source.Component != "endpoint-slice-mirroring-controller" ||
			got.Message != "Skipped 1 invalid IP addresses when mirroring to EndpointSlices" {
			t.Errorf("event %+v", got)
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
}
