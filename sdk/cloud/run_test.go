package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	fakecloud "k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/service/helpers"

	"pintle.dev/pintle/sdk/controller"
)

// running is a provider that runs over objects.
type running struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	stop    func() error
	counts  []*counts // of the handlers of services and nodes
}

// counts is how many handlers were added to a shared informer and taken off it.
type counts struct {
	sync.Mutex
	added, removed int
}

type countedServices struct {
	coreinformers.ServiceInformer
	counts *counts
}

func (i countedServices) Informer() cache.SharedIndexInformer {
	return countedInformer{i.ServiceInformer.Informer(), i.counts}
}

type countedNodes struct {
	coreinformers.NodeInformer
	counts *counts
}

func (i countedNodes) Informer() cache.SharedIndexInformer {
	return countedInformer{i.NodeInformer.Informer(), i.counts}
}

// countedInformer counts handlers, whichever way they are added.
type countedInformer struct {
	cache.SharedIndexInformer
	counts *counts
}

func (i countedInformer) add(r cache.ResourceEventHandlerRegistration, err error) (cache.ResourceEventHandlerRegistration, error) {
	i.counts.Lock()
	defer i.counts.Unlock()
	if err == nil {
		i.counts.added++
	}
	return r, err
}

func (i countedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(i.SharedIndexInformer.AddEventHandler(h))
}

func (i countedInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, d time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, d))
}

func (i countedInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(i.SharedIndexInformer.AddEventHandlerWithOptions(h, o))
}

func (i countedInformer) RemoveEventHandler(r cache.ResourceEventHandlerRegistration) error {
	err := i.SharedIndexInformer.RemoveEventHandler(r)
	i.counts.Lock()
	defer i.counts.Unlock()
	if err == nil {
		i.counts.removed++
	}
	return err
}

// start runs a provider until the test or stop ends it.
func start(t *testing.T, made cloudprovider.Interface, change func(*settings), objects ...runtime.Object) *running {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	r := &runner{
		name: "p", made: made, settings: defaults(), log: quiet(), gate: newGate(), client: client, config: &rest.Config{},
		services: countedServices{factory.Core().V1().Services(), &counts{}}, nodes: countedNodes{factory.Core().V1().Nodes(), &counts{}},
	}
	if change != nil {
		change(&r.settings)
	}
	r.services.Informer()
	r.nodes.Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	var err error
	stop := func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return &running{client, factory, stop, []*counts{r.services.(countedServices).counts, r.nodes.(countedNodes).counts}}
}

func (r *running) eventually(t *testing.T, f func() error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = f()
		return last == nil, nil
	}); err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

func (r *running) address(t *testing.T, name string) (string, *corev1.Service) {
	t.Helper()
	s, err := r.client.CoreV1().Services("shop").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return "", s
	}
	return s.Status.LoadBalancer.Ingress[0].IP, s
}

func nodeNamed(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints, PodCIDRs: []string{"10.244.0.0/24"}, PodCIDR: "10.244.0.0/24"}}
}

// TestUpstream: Kubernetes' own controllers work by a provider with all its parts: load
// balancers, nodes that wait for it, nodes that are gone, and routes.
func TestUpstream(t *testing.T) {
	made := &fakecloud.Cloud{
		ExternalIP: net.ParseIP("198.51.100.1"), EnableInstancesV2: true, ExistsByProviderID: true, Balancers: map[string]fakecloud.Balancer{}, RouteMap: map[string]*fakecloud.Route{},
		OverrideInstanceMetadata: func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			return &cloudprovider.InstanceMetadata{ProviderID: "fake://" + n.Name, Zone: "z1", NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}}}, nil
		},
	}
	gone := nodeNamed("gone")
	gone.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	r := start(t, made, func(s *settings) {
		s.NodeMonitorPeriod.Duration, s.RouteReconciliationPeriod.Duration = 10*time.Millisecond, 10*time.Millisecond
		s.ClusterCIDR = "10.244.0.0/16"
		if err := s.check(); err == nil {
			t.Error("10ms passes")
		}
		_, cidr, err := net.ParseCIDR(s.ClusterCIDR)
		if err != nil {
			t.Fatal(err)
		}
		s.clusterCIDRs = []*net.IPNet{cidr}
	}, serviceNamed("web", 80), nodeNamed("new", corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}), gone)
	r.eventually(t, func() error {
		if ip, s := r.address(t, "web"); ip != "198.51.100.1" || !helpers.HasLBFinalizer(s) {
			return fmt.Errorf("web has %q, finalizers %v", ip, s.Finalizers)
		}
		n, err := r.client.CoreV1().Nodes().Get(t.Context(), "new", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n.Spec.ProviderID != "fake://new" || len(n.Spec.Taints) > 0 || n.Labels[corev1.LabelTopologyZone] != "z1" || len(n.Status.Addresses) != 1 {
			return fmt.Errorf("node new is %+v %+v", n.Spec, n.Status.Addresses)
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated"
		}) {
			return fmt.Errorf("no route to node new: %+v", n.Status.Conditions)
		}
		return nil
	})
	// The service wants none any more.
	_, s := r.address(t, "web")
	s.Spec.Type = corev1.ServiceTypeClusterIP
	if _, err := r.client.CoreV1().Services("shop").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, func() error {
		if ip, s := r.address(t, "web"); ip != "" || helpers.HasLBFinalizer(s) {
			return fmt.Errorf("web has %q, finalizers %v", ip, s.Finalizers)
		}
		return nil
	})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	// What it added to the shared informers is off: nobody works on a new service.
	for n, c := range r.counts {
		c.Lock()
		if c.added == 0 || c.removed != c.added {
			t.Errorf("shared informer %d: %d handlers were added and %d taken off", n, c.added, c.removed)
		}
		c.Unlock()
	}
	calls := func() int {
		made.Lock.Lock()
		defer made.Lock.Unlock()
		return len(made.Calls)
	}
	before := calls()
	if _, err := r.client.CoreV1().Services("shop").Create(t.Context(), serviceNamed("late", 80), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, func() error {
		_, err := r.factory.Core().V1().Services().Lister().Services("shop").Get("late")
		return err
	})
	if ip, s := r.address(t, "late"); ip != "" || len(s.Finalizers) > 0 || calls() != before {
		t.Errorf("after the end: %q, %v, %d calls more", ip, s.Finalizers, calls()-before)
	}
}

// hostile is a provider whose answer depends on the name of the service.
type hostile struct {
	cloudprovider.Interface
	let chan struct{}
}

func (h hostile) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (h hostile) ProviderName() string                                              { return "hostile" }
func (h hostile) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return h, true }
func (h hostile) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (h hostile) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return nil, true } // but it has none
func (h hostile) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (h hostile) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (h hostile) GetLoadBalancerName(context.Context, string, *corev1.Service) string {
	panic("no name")
}

func (h hostile) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	panic("nobody knows")
}

func (h hostile) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

func (h hostile) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	panic("no nodes")
}

func (h hostile) EnsureLoadBalancer(_ context.Context, _ string, s *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	switch s.Name {
	case "a-hangs":
		<-h.let
	case "b-panics":
		var none *corev1.Service
		return at(none.Name), nil
	case "c-nothing":
		return nil, nil
	case "d-thief":
		return at("10.96.0.1"), nil
	case "e-endless":
		return at(make([]string, 100000)...), nil
	}
	return at("198.51.100.9"), nil
}

// TestHostileProvider: one worker, and a provider that hangs, panics and answers rubbish
// about some services: the others get their addresses, and the end does not hang.
func TestHostileProvider(t *testing.T) {
	api := serviceNamed("kubernetes", 443)
	api.Spec.Type, api.Spec.ClusterIPs = corev1.ServiceTypeClusterIP, []string{"10.96.0.1"}
	h := hostile{let: make(chan struct{})}
	r := start(t, h, func(s *settings) { s.ProviderTimeout.Duration = 2 * time.Second },
		api, serviceNamed("a-hangs", 80), serviceNamed("b-panics", 80), serviceNamed("c-nothing", 80), serviceNamed("d-thief", 80), serviceNamed("e-endless", 80), serviceNamed("z-good", 80))
	r.eventually(t, func() error {
		if ip, _ := r.address(t, "z-good"); ip != "198.51.100.9" {
			return fmt.Errorf("z-good has %q", ip)
		}
		events, err := r.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for name, words := range map[string]string{
			"a-hangs": "no answer within 2s", "b-panics": "panic: runtime error", "c-nothing": "service status returned by EnsureLoadBalancer is nil",
			"d-thief": "10.96.0.1, which is the cluster IP of a service", "e-endless": "100000 addresses",
		} {
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.Name == name && e.Reason == "SyncLoadBalancerFailed" && strings.Contains(e.Message, words)
			}) {
				return fmt.Errorf("no event of %s says %q", name, words)
			}
		}
		return nil
	})
	for _, name := range []string{"a-hangs", "b-panics", "c-nothing", "d-thief", "e-endless"} {
		if ip, _ := r.address(t, name); ip != "" {
			t.Errorf("%s has %s", name, ip)
		}
	}
	close(h.let)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// TestNothingToDo: a provider without a part, or of which all is switched off, is refused;
// so are one that panics and routes without a range.
func TestNothingToDo(t *testing.T) {
	for name, c := range map[string]struct {
		made   cloudprovider.Interface
		change func(*settings)
		want   string
	}{
		"no part":      {&fakecloud.Cloud{DisableInstances: true, DisableRoutes: true, DisableLoadBalancers: true}, func(*settings) {}, "no controller has anything to do"},
		"switched off": {&fakecloud.Cloud{}, func(s *settings) { s.Controllers = nil }, "no controller has anything to do"},
		"no range":     {&fakecloud.Cloud{}, func(*settings) {}, "has no clusterCIDR"},
		"panics":       {hostile{Interface: nil, let: nil}.broken(), func(*settings) {}, "panic"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			factory := informers.NewSharedInformerFactory(client, 0)
			r := &runner{name: "p", made: c.made, settings: defaults(), log: quiet(), gate: newGate(), client: client, config: &rest.Config{}, services: factory.Core().V1().Services(), nodes: factory.Core().V1().Nodes()}
			c.change(&r.settings)
			if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// brokenProvider panics when it is asked what it has.
type brokenProvider struct{ hostile }

func (hostile) broken() cloudprovider.Interface { return brokenProvider{} }

func (brokenProvider) Routes() (cloudprovider.Routes, bool) { panic("no idea") }

// TestBuild: a configuration is tried without anything that begins.
func TestBuild(t *testing.T) {
	var got *Context
	p := Plugin(Provider{Name: "p", New: func(c *Context) (cloudprovider.Interface, error) {
		got = c
		own := struct {
			Zone string `json:"zone"`
		}{}
		if err := c.Decode(&own); err != nil {
			return nil, err
		}
		if own.Zone == "none" {
			return nil, nil
		}
		return hostile{}, nil
	}})
	if p.Kind != Kind || p.Name != "p" {
		t.Errorf("%+v", p)
	}
	with := func(config string) error {
		r, err := p.New(&controller.Context{Name: "p", NodeName: "n", Config: []byte(config), Logger: quiet(), RESTConfig: &rest.Config{Host: "http://127.0.0.1:1"}, Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)})
		if err != nil {
			return err
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		return r.Run(over)
	}
	if err := with(`{"zone":"a","clusterName":"c"}`); err != nil || string(got.Config) != `{"zone":"a"}` || got.NodeName != "n" || got.Client == nil {
		t.Errorf("%v, %+v", err, got)
	}
	for config, want := range map[string]string{
		`{"zoo":"a"}`: `cloud provider p: configuration: json: unknown field "zoo"`, `{"zone":"none"}`: "cloud provider p: New made none", `{"clusterName":""}`: "cloud provider p: configuration: clusterName",
	} {
		if err := with(config); err == nil || err.Error()[:len(want)] != want {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	if _, err := (clients{config: &rest.Config{}}).Config("x"); err != nil || errors.Is(err, errEnded) {
		t.Error(err)
	}
}
