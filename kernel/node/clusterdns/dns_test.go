package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/sdk/proxy"
)

// plugin does what a test says.
type plugin struct {
	mu      sync.Mutex
	fail    error
	status  proxy.Status
	starts  int
	stopped bool
	options proxy.Options
}

func (p *plugin) Probe(context.Context, []byte) error { return nil }
func (p *plugin) Apply(context.Context, *proxy.Diff) error {
	return errors.New("a DNS is told no diffs")
}
func (p *plugin) Stop(context.Context, bool) error { p.stopped = true; return nil }
func (p *plugin) Start(_ context.Context, o proxy.Options) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	p.options = o
	return p.fail
}

func (p *plugin) Status() proxy.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (p *plugin) set(fail error, s proxy.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail, p.status = fail, s
}

func serves(address string, port int32) []*proxy.ServedPort {
	return []*proxy.ServedPort{
		{Name: "dns", Protocol: "UDP", Address: address, Port: port}, {Name: "dns-tcp", Protocol: "TCP", Address: address, Port: port},
		{Name: "metrics", Protocol: "TCP", Address: address, Port: 9153},
	}
}

func theNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{corev1.LabelTopologyZone: "z"}}}
}

// made is a DNS over a fake API with these objects.
func made(t *testing.T, p *plugin, objects ...runtime.Object) (*DNS, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	d, err := New(Config{
		Plugin: "x", Connect: func() (proxy.Proxy, error) { return p, nil }, ClusterIP: "10.96.0.10", Client: client,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Options: proxy.Options{NodeName: "n", NodeIPs: []string{"192.0.2.1"}, ClusterDomain: "cluster.local"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, client
}

func sliceOf(t *testing.T, client *fake.Clientset) *discoveryv1.EndpointSlice {
	t.Helper()
	s, err := client.DiscoveryV1().EndpointSlices(Namespace).Get(t.Context(), "kube-dns-n", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The service is the one of the field, and the node's endpoint is where the plugin says
// that it serves; both come back when somebody deletes them, and the endpoint goes with
// the DNS.
func TestPublishes(t *testing.T) {
	p := &plugin{status: proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)}}
	d, client := made(t, p, theNode())
	check := func(when string) {
		t.Helper()
		svc, err := client.CoreV1().Services(Namespace).Get(t.Context(), Service, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if svc.Spec.ClusterIP != "10.96.0.10" || svc.Labels["k8s-app"] != "kube-dns" || len(svc.Spec.Selector) != 0 || len(svc.Spec.Ports) != 3 {
			t.Errorf("%s: service %+v", when, svc)
		}
		s := sliceOf(t, client)
		if s == nil {
			t.Fatalf("%s: no slice", when)
		}
		e := s.Endpoints[0]
		if s.Labels[discoveryv1.LabelServiceName] != Service || e.Addresses[0] != "192.0.2.1" || !*e.Conditions.Ready || *e.NodeName != "n" || *e.Zone != "z" ||
			e.Hints.ForNodes[0].Name != "n" || len(s.Ports) != 3 || *s.Ports[0].Port != 10053 || s.OwnerReferences[0].UID != "u" {
			t.Errorf("%s: slice %+v", when, s)
		}
	}
	if err := d.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("at first")
	select {
	case <-d.Answering():
	default:
		t.Error("it does not say that it answers")
	}
	if p.options.ClusterDomain != "cluster.local" {
		t.Errorf("options %+v", p.options)
	}
	writes := len(client.Actions())
	if err := d.round(t.Context()); err != nil || len(client.Actions()) != writes {
		t.Errorf("nothing changed, and there were %d requests, %v", len(client.Actions())-writes, err)
	}
	if err := client.CoreV1().Services(Namespace).Delete(t.Context(), Service, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.DiscoveryV1().EndpointSlices(Namespace).Delete(t.Context(), "kube-dns-n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range again {
		if err := d.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("after they were deleted")
	if err := d.Stop(t.Context()); err != nil || !p.stopped {
		t.Errorf("stop: %v, stopped %t", err, p.stopped)
	}
	if s := sliceOf(t, client); s != nil {
		t.Errorf("after the stop there is %+v", s)
	}
}

// A plugin that is gone is started again; until it answers its endpoint is not ready.
func TestPluginComesBack(t *testing.T) {
	p := &plugin{status: proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)}}
	d, client := made(t, p, theNode())
	if err := d.round(t.Context()); err != nil || p.starts != 1 {
		t.Fatalf("%v, %d starts", err, p.starts)
	}
	p.set(errors.New("the process is gone"), proxy.Status{Message: "unavailable"})
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "the process is gone") {
		t.Errorf("while it is gone: %v", err)
	}
	if s := sliceOf(t, client); s == nil || *s.Endpoints[0].Conditions.Ready {
		t.Errorf("while it is gone: slice %+v", s)
	}
	p.set(nil, proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10054)})
	if err := d.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := sliceOf(t, client); s == nil || !*s.Endpoints[0].Conditions.Ready || *s.Ports[0].Port != 10054 {
		t.Errorf("when it is back: slice %+v", s)
	}
}

// A plugin cannot have the cluster's names asked elsewhere than at its own node, nor
// other ports put into the service.
func TestPluginPublishesNothingElse(t *testing.T) {
	for what, list := range map[string][]*proxy.ServedPort{
		"another address":  serves("198.51.100.1", 10053),
		"no address":       serves("", 10053),
		"another name":     {{Name: "ssh", Protocol: "TCP", Address: "192.0.2.1", Port: 22}},
		"another protocol": {{Name: "dns", Protocol: "SCTP", Address: "192.0.2.1", Port: 53}},
		"no port":          serves("192.0.2.1", 0),
		"too large a port": serves("192.0.2.1", 70000),
	} {
		p := &plugin{status: proxy.Status{Ready: true, Serves: list}}
		d, client := made(t, p, theNode())
		if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "says that it serves") {
			t.Errorf("%s: %v", what, err)
		}
		if s := sliceOf(t, client); s != nil {
			t.Errorf("%s: published %+v", what, s)
		}
	}
}

// A service of that name that selects pods is somebody's own DNS: nothing is added to it.
func TestSomebodyElsesServiceIsLeftAlone(t *testing.T) {
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: Service, Namespace: Namespace}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.77", Selector: map[string]string{"k8s-app": "kube-dns"}}}
	p := &plugin{status: proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)}}
	d, client := made(t, p, theNode(), theirs)
	if err := d.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := sliceOf(t, client); s != nil {
		t.Errorf("published %+v", s)
	}
	svc, err := client.CoreV1().Services(Namespace).Get(t.Context(), Service, metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.96.0.77" {
		t.Errorf("service %+v, %v", svc, err)
	}
	select {
	case <-d.Answering():
		t.Error("it says that it answers")
	default:
	}
}

// What keeps it from being published is said: an address that is taken or another one,
// a node that is not there yet.
func TestFaultsAreSaid(t *testing.T) {
	up := proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)}
	d, _ := made(t, &plugin{status: up}, theNode(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: Service, Namespace: Namespace}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.10"}})
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "has the address 10.0.0.10") {
		t.Errorf("another address: %v", err)
	}
	d, client := made(t, &plugin{status: up}, theNode())
	client.PrependReactor("create", "services", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, Service, nil)
	})
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "service kube-system/kube-dns") {
		t.Errorf("address is taken: %v", err)
	}
	d, _ = made(t, &plugin{status: up})
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "node n") {
		t.Errorf("no node: %v", err)
	}
	d, _ = made(t, &plugin{status: proxy.Status{Ready: true}}, theNode())
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "serves no DNS") {
		t.Errorf("a proxy of services: %v", err)
	}
	d, _ = made(t, &plugin{status: proxy.Status{Message: "asleep"}}, theNode())
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "asleep") {
		t.Errorf("not ready: %v", err)
	}
}

// Run goes on through faults, at each tick, and ends with its context.
func TestRun(t *testing.T) {
	p := &plugin{fail: errors.New("not yet")}
	d, _ := made(t, p, theNode())
	clock := clocktesting.NewFakeClock(metav1.Now().Time)
	d.cfg.Clock = clock
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	p.set(nil, proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)})
	for {
		select {
		case <-d.Answering():
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return
		case <-t.Context().Done():
			t.Fatal("it does not answer")
		default:
			clock.Step(look)
		}
	}
}

func TestAddress(t *testing.T) {
	for cidr, want := range map[string]string{
		"10.96.0.0/16": "10.96.0.10", "10.96.0.0/28": "10.96.0.10", "10.0.0.99/24": "10.0.0.10", "fd00::/112": "fd00::a", "172.30.255.240/28": "172.30.255.250",
		"10.96.0.0/29": "", "10.96.0.0/30": "", "nonsense": "", "": "",
	} {
		if got, err := Address(cidr); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", cidr, got, err, want)
		}
	}
}

// TestOwn: on a machine that may write no slices the service proxy gets the address of the DNS,
// while it does, and nothing that is not this node's. The API is not written.
func TestOwn(t *testing.T) {
	p := &plugin{status: proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)}}
	d, client := made(t, p, theNode())
	var told []string
	own := &serviceproxy.Own{}
	defer own.Follow(func(name proxy.Name, e *proxy.ServiceEndpoints) {
		text := name.String()
		for _, port := range e.GetPorts() {
			text += fmt.Sprintf(" %s/%s=%s:%d", port.GetPortName(), port.GetProtocol(), port.GetEndpoints()[0].GetIp(), port.GetEndpoints()[0].GetPort())
		}
		told = append(told, text)
	}, nil)()
	d.cfg.Client, d.cfg.Own = nil, own
	const there = "kube-system/kube-dns dns/UDP=192.0.2.1:10053 dns-tcp/TCP=192.0.2.1:10053 metrics/TCP=192.0.2.1:9153"
	expect := func(when string, want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: %q, want %q", when, told, want)
		}
	}
	for range 2 * again {
		if err := d.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect("at first", there)
	select {
	case <-d.Answering():
	default:
		t.Error("it does not say that it answers")
	}
	p.set(errors.New("the process is gone"), proxy.Status{Message: "unavailable"})
	if err := d.round(t.Context()); err == nil {
		t.Error("the process is gone, and there is no error")
	}
	expect("while it is gone", there, "kube-system/kube-dns")
	p.set(nil, proxy.Status{Ready: true, Serves: serves("198.51.100.1", 10053)})
	if err := d.round(t.Context()); err == nil || !strings.Contains(err.Error(), "says that it serves") {
		t.Errorf("another address: %v", err)
	}
	expect("another address", there, "kube-system/kube-dns")
	p.set(nil, proxy.Status{Ready: true, Serves: serves("192.0.2.1", 10053)})
	if err := d.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("at the end", there, "kube-system/kube-dns", there, "kube-system/kube-dns")
	if n := len(client.Actions()); n != 0 {
		t.Errorf("%d requests of a machine that may make none", n)
	}
}
