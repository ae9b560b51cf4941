package serviceproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/sdk/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a proxy that folds diffs into a state and can be made to fail.
type recorder struct {
	mu       sync.Mutex
	probe    error
	fail     error
	starts   int
	state    proxy.State
	stopped  bool
	resetted int
}

func (r *recorder) Probe(context.Context, []byte) error { return r.probe }
func (r *recorder) Start(context.Context, proxy.Options) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	return nil
}

func (r *recorder) Apply(_ context.Context, d *proxy.Diff) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		err := r.fail
		r.fail = nil
		return err
	}
	if d.Reset_ {
		r.resetted++
	}
	r.state.Apply(d)
	return nil
}
func (r *recorder) Status() proxy.Status { return proxy.Status{} }
func (r *recorder) Stop(context.Context, bool) error {
	r.stopped = true
	return nil
}

func (r *recorder) addresses(name proxy.Name) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range r.state.Endpoints[name].GetPorts() {
		for _, e := range p.Endpoints {
			out = append(out, e.Ip)
		}
	}
	return out
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

// watched waits until a resource is watched: a watch of the fake does not deliver what was
// deleted between the list and the watch.
func watched(t *testing.T, client *fake.Clientset, resource string) {
	t.Helper()
	eventually(t, resource+" are watched", func() bool {
		return slices.ContainsFunc(client.Actions(), func(a k8stesting.Action) bool { return a.Matches("watch", resource) })
	})
}

func slice(name string, ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: ptr.To("n")})
	}
	return s
}

func TestFeeder(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.96.0.9"}, Ports: []corev1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		}},
		slice("web-1", "10.0.0.1"), slice("web-2", "10.0.0.2"),
	)
	broken := &recorder{probe: errors.New("needs root")}
	good := &recorder{}
	connect := func(p proxy.Proxy) func(context.Context) (proxy.Proxy, error) {
		return func(context.Context) (proxy.Proxy, error) { return p, nil }
	}
	own := new(Own)
	f, err := New(Config{
		Own:        own,
		Candidates: []Candidate{{Name: "iptables", Connect: connect(broken)}, {Name: "userspace", Connect: connect(good)}},
		Options:    proxy.Options{NodeName: "n"},
		Client:     client, Logger: slog.New(slog.DiscardHandler), Settle: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	<-f.Chosen()
	if name, reasons := f.Choice(); name != "userspace" || len(reasons) != 1 || !strings.Contains(reasons[0], "needs root") {
		t.Errorf("chose %s, %v", name, reasons)
	}
	web := proxy.Name{Namespace: "d", Name: "web"}
	has := func(want ...string) func() bool {
		return func() bool { return slices.Equal(good.addresses(web), want) }
	}
	eventually(t, "both slices are merged", has("10.0.0.1", "10.0.0.2"))
	if own.Absent(web) || !own.Absent(proxy.Name{Namespace: "d", Name: "none"}) {
		t.Error("which services the cluster has is not known")
	}
	if !good.state.Endpoints[web].Ports[0].Endpoints[0].Local {
		t.Error("an endpoint on this node is not local")
	}
	if _, err := client.DiscoveryV1().EndpointSlices("d").Update(ctx, slice("web-1", "10.0.0.3"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an endpoint moved", has("10.0.0.2", "10.0.0.3"))

	// Diffs carry the node's zone and fate, and not its heartbeats.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "a"}}}
	told := func(want string) func() bool {
		return func() bool {
			good.mu.Lock()
			defer good.mu.Unlock()
			return fmt.Sprintf("%s %t", good.state.Node.GetZone(), good.state.Node.GetIneligible()) == want
		}
	}
	eventually(t, "a node that is not there takes no traffic", told(" true"))
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the zone is told", told("a false"))
	node = node.DeepCopy()
	node.Labels[corev1.LabelTopologyZone], node.Spec.Taints = "b", []corev1.Taint{{Key: toBeDeleted}}
	if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another zone and the taint", told("b true"))

	// A proxy that fails is started and fed in full.
	good.mu.Lock()
	good.fail = errors.New("boom")
	good.mu.Unlock()
	if err := client.DiscoveryV1().EndpointSlices("d").Delete(ctx, "web-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "fed anew after a failure", has("10.0.0.3"))
	good.mu.Lock()
	if good.starts != 2 || good.resetted != 2 {
		t.Errorf("%d starts, %d resets", good.starts, good.resetted)
	}
	good.mu.Unlock()
	watched(t, client, "services")
	if err := client.CoreV1().Services("d").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted service is gone", func() bool {
		good.mu.Lock()
		defer good.mu.Unlock()
		return len(good.state.Services) == 0 && len(good.state.Endpoints) == 0
	})
	if !own.Absent(web) {
		t.Error("a deleted service is not absent")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.Stop(t.Context(), true); err != nil || !good.stopped {
		t.Errorf("stop: %v", err)
	}
}

func TestNoCandidateCanRun(t *testing.T) {
	bad := &recorder{probe: errors.New("no")}
	f, err := New(Config{
		Candidates: []Candidate{{Name: "x", Connect: func(context.Context) (proxy.Proxy, error) { return bad, nil }}},
		Client:     fake.NewClientset(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "x: no") {
		t.Errorf("got %v", err)
	}
}

func TestServicesOfOtherProxies(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"service.kubernetes.io/service-proxy-name": "mesh"}}}
	if serviceOf(svc) != nil {
		t.Error("a service that another proxy has asked for is served")
	}
}

// TestListenersAreKept: a service that wants the node's own address with a port that the kernel listens on is not
// served there, however the address came to it; other addresses and ports are.
func TestListenersAreKept(t *testing.T) {
	listening := func() listener.Set { return listener.Set{{Owner: "the API server", Address: "0.0.0.0", Port: 6443}} }
	for _, c := range []struct {
		name     string
		port     int32
		protocol corev1.Protocol
		ip       string
		refused  bool
	}{
		{"the node's address", 6443, corev1.ProtocolTCP, "192.0.2.5", true},
		{"loopback", 6443, corev1.ProtocolTCP, "127.0.0.1", true},
		{"no protocol", 6443, "", "192.0.2.5", true},
		{"another port", 443, corev1.ProtocolTCP, "192.0.2.5", false},
		{"another protocol", 6443, corev1.ProtocolUDP, "192.0.2.5", false},
		{"another machine's address", 6443, corev1.ProtocolTCP, "192.0.2.6", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := New(Config{
				Candidates: []Candidate{{Name: "x"}}, Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler),
				Options: proxy.Options{NodeIPs: []string{"192.0.2.5"}}, Listening: listening,
			})
			if err != nil {
				t.Fatal(err)
			}
			events := record.NewFakeRecorder(10)
			f.events = events
			name := proxy.Name{Namespace: "d", Name: "grab"}
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Spec: corev1.ServiceSpec{
				ExternalIPs: []string{"198.51.100.1", c.ip},
				Ports:       []corev1.ServicePort{{Name: "x", Protocol: corev1.ProtocolTCP, Port: 80}, {Protocol: c.protocol, Port: c.port}},
			}}
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: c.ip}}
			for range 2 {
				s := serviceOf(svc)
				f.keepOthers(name, svc, s)
				if slices.Contains(s.ExternalIps, c.ip) == c.refused || slices.Contains(s.LoadBalancerIps, c.ip) == c.refused || !slices.Contains(s.ExternalIps, "198.51.100.1") {
					t.Errorf("served on %v and %v", s.ExternalIps, s.LoadBalancerIps)
				}
			}
			if got := len(events.Events); got != map[bool]int{true: 1}[c.refused] {
				t.Errorf("%d events", got)
			}
			if !slices.Contains(svc.Spec.ExternalIPs, c.ip) {
				t.Error("the shared object was changed")
			}
		})
	}
	t.Run("node port", func(t *testing.T) {
		f, err := New(Config{Candidates: []Candidate{{Name: "x"}}, Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler), Listening: listening})
		if err != nil {
			t.Fatal(err)
		}
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "a", Port: 80, NodePort: 6443}, {Name: "b", Port: 81, NodePort: 30000}}}}
		s := serviceOf(svc)
		f.keepOthers(proxy.Name{Name: "grab"}, svc, s)
		if s.Ports[0].NodePort != 0 || s.Ports[1].NodePort != 30000 || f.refused[proxy.Name{Name: "grab"}] == "" {
			t.Errorf("served on %v", s.Ports)
		}
	})
}

// TestClusterIPsAreKept: whatever a cloud provider wrote into a status, no load balancer
// takes the traffic of a cluster IP.
func TestClusterIPsAreKept(t *testing.T) {
	for ip, refused := range map[string]bool{
		"10.96.0.1": true, "10.96.255.255": true, "::ffff:10.96.0.10": true,
		"10.97.0.1": false, "192.0.2.5": false, "fd00::1": false,
	} {
		t.Run(ip, func(t *testing.T) {
			f, err := New(Config{Candidates: []Candidate{{Name: "x"}}, Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler), Options: proxy.Options{ServiceCIDRs: []string{"10.96.0.0/16"}}})
			if err != nil {
				t.Fatal(err)
			}
			events := record.NewFakeRecorder(10)
			f.events = events
			name := proxy.Name{Namespace: "d", Name: "grab"}
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.7.7"}, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 443}},
			}}
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.9"}, {IP: ip}}
			s := serviceOf(svc)
			f.keepOthers(name, svc, s)
			if slices.Contains(s.LoadBalancerIps, ip) == refused || !slices.Contains(s.LoadBalancerIps, "198.51.100.9") || !slices.Equal(s.ClusterIps, []string{"10.96.7.7"}) {
				t.Errorf("served on %v and %v", s.LoadBalancerIps, s.ClusterIps)
			}
			if !refused {
				if len(events.Events) != 0 {
					t.Error("there is an event")
				}
				return
			}
			if event := <-events.Events; !strings.Contains(event, "AddressRefused") || !strings.Contains(event, ip+", which is in the range of cluster IPs") {
				t.Errorf("event %q", event)
			}
		})
	}
}

// TestAddressesOfOthers: no service takes the traffic of another's cluster IP, as an external IP or as that
// of a load balancer. The other may have no endpoint, may be of a second ServiceCIDR, and may be there later.
func TestAddressesOfOthers(t *testing.T) {
	port := []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	for name, tt := range map[string]struct {
		inner  string // a cluster IP
		grab   corev1.Service
		served func(*proxy.Service) []string
		kept   []string // while there is the service inner
		free   []string // without it
	}{
		"external IP": {
			inner: "10.96.0.9",
			grab: corev1.Service{Spec: corev1.ServiceSpec{
				ClusterIPs: []string{"10.96.0.7"}, ExternalIPs: []string{"198.51.100.9", "::ffff:10.96.0.9", "10.96.0.8"}, Ports: port,
			}},
			served: (*proxy.Service).GetExternalIps,
			kept:   []string{"198.51.100.9", "10.96.0.8"},
			free:   []string{"198.51.100.9", "::ffff:10.96.0.9", "10.96.0.8"},
		},
		"load balancer, of another range": {
			inner: "10.99.0.9",
			grab: corev1.Service{
				Spec:   corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.7"}, Ports: port},
				Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "198.51.100.9"}, {IP: "::ffff:10.99.0.9"}}}},
			},
			served: (*proxy.Service).GetLoadBalancerIps,
			kept:   []string{"198.51.100.9"},
			free:   []string{"198.51.100.9", "::ffff:10.99.0.9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "inner"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{tt.inner}, Ports: port}}
			tt.grab.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: "grab"}
			client, p := fake.NewClientset(&tt.grab, inner), &recorder{}
			f, err := New(Config{
				Candidates: []Candidate{{Name: "x", Connect: func(context.Context) (proxy.Proxy, error) { return p, nil }}},
				Options:    proxy.Options{NodeName: "n", ServiceCIDRs: []string{"10.96.0.0/16"}},
				Client:     client, Logger: slog.New(slog.DiscardHandler), Settle: time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- f.Run(ctx) }()
			served := func(want []string) func() bool {
				return func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					return slices.Equal(tt.served(p.state.Services[proxy.Name{Namespace: "d", Name: "grab"}]), want)
				}
			}
			eventually(t, "the cluster IP is kept", served(tt.kept))
			watched(t, client, "services")
			if err := client.CoreV1().Services("d").Delete(ctx, "inner", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the address is served when no service has it", served(tt.free))
			if _, err := client.CoreV1().Services("d").Create(ctx, inner, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the cluster IP is kept once more", served(tt.kept))
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
