package endpointslice

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/sdk/controller"
)

// A watch of the fake holds 100 events, and panics at one more: a busy machine may let the
// reader wait for longer than it takes to write these.
func init() { watch.DefaultChanSize = 10_000 }

func pod(name, ip, version string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{"app": "web"}, ResourceVersion: version},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		},
	}
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.7", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// start runs the controller; the server of the test names generated objects
// and counts resource versions, which the tracker of slices needs.
func start(t *testing.T) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "z1"}}})
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

// The slices of a service follow its pods, carry both labels and the owner,
// and are split at 100 endpoints.
func TestController(t *testing.T) {
	client := start(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(what string, want map[string]bool) []discoveryv1.EndpointSlice {
		t.Helper()
		var list *discoveryv1.EndpointSliceList
		got := map[string]bool{}
		if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			var err error
			if list, err = client.DiscoveryV1().EndpointSlices("ns").List(ctx, metav1.ListOptions{}); err != nil {
				return false, err
			}
			got = map[string]bool{}
			for _, s := range list.Items {
				for _, e := range s.Endpoints {
					got[e.Addresses[0]] = *e.Conditions.Ready
				}
			}
			return fmt.Sprint(got) == fmt.Sprint(want), nil
		}); err != nil {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
		return list.Items
	}
	_, err := client.CoreV1().Services("ns").Create(ctx, service(), metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().Pods("ns").Create(ctx, pod("a", "10.1.0.1", "1", true), metav1.CreateOptions{})
	must(err)
	got := eventually("one pod", map[string]bool{"10.1.0.1": true})
	s := got[0]
	if s.Labels[discoveryv1.LabelServiceName] != "web" || s.Labels[discoveryv1.LabelManagedBy] != Name || s.OwnerReferences[0].Name != "web" ||
		s.AddressType != discoveryv1.AddressTypeIPv4 || *s.Ports[0].Port != 8080 || *s.Endpoints[0].NodeName != "n1" || *s.Endpoints[0].Zone != "z1" {
		t.Errorf("slice %+v", s)
	}
	_, err = client.CoreV1().Pods("ns").Update(ctx, pod("a", "10.1.0.1", "2", false), metav1.UpdateOptions{})
	must(err)
	eventually("not ready", map[string]bool{"10.1.0.1": false})
	want := map[string]bool{"10.1.0.1": false}
	for i := range 120 {
		ip := fmt.Sprintf("10.2.0.%d", i+1)
		want[ip] = true
		_, err = client.CoreV1().Pods("ns").Create(ctx, pod(ip, ip, "1", true), metav1.CreateOptions{})
		must(err)
	}
	got = eventually("121 pods", want)
	if len(got) != 2 || max(len(got[0].Endpoints), len(got[1].Endpoints)) > 100 {
		t.Errorf("%d slices", len(got))
	}
}
