package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"pintle.dev/pintle/plugins/ingress/gateway"
	"pintle.dev/pintle/plugins/ingress/settings"
	"pintle.dev/pintle/sdk/controller"
)

const patience = 2 * time.Minute

// running is a keeper over a fake API.
type running struct {
	*keeper
	client *fake.Clientset
	stop   func()
}

func start(t *testing.T, objects ...runtime.Object) *running {
	t.Helper()
	return startWith(t, &gateway.Exchange{}, objects...)
}

func startWith(t *testing.T, with *gateway.Exchange, objects ...runtime.Object) *running {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	s := testSettings()
	k, err := build(client, factory, with, s, "n", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	r := &running{keeper: k, client: client}
	ended := false
	r.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	}
	t.Cleanup(r.stop)
	return r
}

func testSettings() settings.Settings {
	s := settings.Default()
	s.HTTPAddresses, s.HTTPSAddresses, s.DefaultClass = []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}, true
	return s
}

// eventually asks until a condition has no error.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

func (r *running) events(reason string) (out []string) {
	list, err := r.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			out = append(out, e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name+": "+e.Message)
		}
	}
	return out
}

func (r *running) get(host string) (string, error) {
	all := r.proxy.Addresses() // written before the first status
	req, err := http.NewRequest(http.MethodGet, "http://"+all[0].String()+"/", nil)
	if err != nil {
		return "", err
	}
	req.Host = host
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return strconv.Itoa(response.StatusCode) + " " + strings.TrimSpace(string(text)), err
}

func classless(namespace, name, host, service string) *networkingv1.Ingress {
	i := ingress(namespace, name, "", host, service)
	i.Spec.IngressClassName = nil
	return i
}

func ingress(namespace, name, class, host, service string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)},
		Spec: networkingv1.IngressSpec{IngressClassName: &class, Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
		}}}}},
	}
}

func class(name, controller string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}}
}

func node(addresses ...corev1.NodeAddress) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: addresses}}
}

// TestIngress: from an Ingress and a Service to an answer, a status and events.
func TestIngress(t *testing.T) {
	r := start(t,
		node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "n"}),
		class("others", "example.com/other"), ingress("shop", "others", "others", "others.test", "web"),
		ingress("shop", "web", "pintle", "a.test", "web"), ingress("shop", "none", "none", "none.test", "web"),
		classless("shop", "classless", "classless.test", "web"),
	)
	// It makes its class, and what names that is served then.
	eventually(t, func() error {
		c, err := r.client.NetworkingV1().IngressClasses().Get(t.Context(), "pintle", metav1.GetOptions{})
		if err == nil && (c.Spec.Controller != Controller || c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true") {
			err = fmt.Errorf("%+v", c)
		}
		return err
	})
	address := func(name string) string {
		i, err := r.client.NetworkingV1().Ingresses("shop").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(i.Status.LoadBalancer.Ingress) == 0 {
			return ""
		}
		return i.Status.LoadBalancer.Ingress[0].IP
	}
	eventually(t, func() error {
		if got := address("web"); got != "192.0.2.10" {
			return fmt.Errorf("the Ingress has the address %q", got)
		}
		if got := r.events("MissingService"); len(got) != 2 || !slices.Contains(got, `shop/web: Service "web" is not found`) {
			return fmt.Errorf("events: %q", got)
		}
		return nil
	})
	if address("others") != "" || address("none") != "" {
		t.Error("an Ingress of another controller has an address")
	}
	// One without a class, of before the class was there, is of the default class.
	eventually(t, func() error {
		if got := address("classless"); got != "192.0.2.10" {
			return fmt.Errorf("the Ingress without a class has the address %q", got)
		}
		return nil
	})
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := r.client.CoreV1().Services("shop").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		got, err := r.get("a.test")
		if err == nil && got != "503 503 Service Unavailable" {
			err = fmt.Errorf("without an endpoint: %s", got)
		}
		return err
	})
	// An endpoint: this machine by an address that is not loopback.
	backend, ip := elsewhere(t)
	_, port, _ := net.SplitHostPort(backend)
	number, _ := strconv.Atoi(port)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(number))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}}},
	}
	if _, err := r.client.DiscoveryV1().EndpointSlices("shop").Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		got, err := r.get("a.test")
		if err == nil && got != "200 hello" {
			err = fmt.Errorf("with an endpoint: %s", got)
		}
		return err
	})
	if got, err := r.get("others.test"); err != nil || !strings.HasPrefix(got, "404") {
		t.Errorf("an Ingress of another controller answers %s, %v", got, err)
	}
	// Another namespace wants the host, and this one a Secret that is not there.
	late := ingress("mallory", "thief", "pintle", "a.test", "web")
	late.CreationTimestamp = metav1.Now()
	if _, err := r.client.NetworkingV1().Ingresses("mallory").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i, err := r.client.NetworkingV1().Ingresses("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.test"}, SecretName: "tls"}}
	if _, err := r.client.NetworkingV1().Ingresses("shop").Update(t.Context(), i, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if got := r.events("HostConflict"); len(got) != 1 || got[0] != `mallory/thief: Host "a.test" is not served for this Ingress: an older Ingress of another namespace has it` {
			return fmt.Errorf("events: %q", got)
		}
		if got := r.events("MissingSecret"); len(got) != 1 || !strings.HasPrefix(got[0], `shop/web: Secret "tls" is not found`) {
			return fmt.Errorf("events: %q", got)
		}
		return nil
	})
	if got, err := r.get("a.test"); err != nil || got != "200 hello" {
		t.Errorf("the host of another answers %s, %v", got, err)
	}
	// One that is of another class now loses the address.
	if i, err = r.client.NetworkingV1().Ingresses("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	i.Spec.IngressClassName = ptr.To("others")
	if _, err := r.client.NetworkingV1().Ingresses("shop").Update(t.Context(), i, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if got := address("web"); got != "" {
			return fmt.Errorf("it keeps the address %s", got)
		}
		return nil
	})
	r.stop()
	if _, err := r.get("a.test"); err == nil {
		t.Error("it answers after its end")
	}
	for _, a := range r.client.Actions() {
		if a.GetResource().Resource == "secrets" && a.GetVerb() != "get" {
			t.Errorf("it does %s of Secrets", a.GetVerb())
		}
	}
}

// elsewhere is a backend at an address of this machine that is not loopback.
func elsewhere(t *testing.T) (address, ip string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.To4() == nil || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(n.IP.String(), "0"))
		if err != nil {
			continue
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}}
		s.Start()
		t.Cleanup(s.Close)
		return l.Addr().String(), n.IP.String()
	}
	t.Skip("this machine has no address but loopback")
	return "", ""
}

// TestFloods: what has nothing to do with the table in force asks for no other. While one
// is made, everything does.
func TestFloods(t *testing.T) {
	client := fake.NewClientset()
	k, err := build(client, informers.NewSharedInformerFactory(client, 0), &gateway.Exchange{}, settings.Default(), "n", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	unused := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mallory", Name: "unused"}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "mallory", Name: "s", Labels: map[string]string{discoveryv1.LabelServiceName: "unused"}}}
	k.compile()
	follow := k.follow(k.uses)
	for range 1000 {
		follow.OnAdd(unused, false)
		follow.OnUpdate(slice, slice)
		follow.OnDelete(slice)
	}
	if len(k.wake) != 0 {
		t.Error("what no Ingress names asks for a table")
	}
	k.table.Store(nil)
	follow.OnAdd(unused, false)
	if len(k.wake) != 1 {
		t.Error("a change while a table is made is lost")
	}
}

// TestNewStartsNothing: a configuration that is tried opens no listener, and a faulty one
// is refused.
func TestNewStartsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := fake.NewClientset()
	made := func(config string) error {
		_, err := New(&gateway.Exchange{})(&controller.Context{
			Name: Name, Config: []byte(config), Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Logger: slog.New(slog.DiscardHandler),
		})
		return err
	}
	if err := made(fmt.Sprintf(`{"httpAddresses":[%q]}`, l.Addr().String())); err != nil {
		t.Error(err)
	}
	if err := made(`{"httpAddresses":["x"]}`); err == nil {
		t.Error("a faulty configuration is taken")
	}
}

// TestGatewayAway: while the controller of Gateways is away, an Ingress takes none of their
// hosts, and afterwards they are served as before (hostile).
func TestGatewayAway(t *testing.T) {
	with := &gateway.Exchange{}
	objects := &gateway.Objects{
		Classes: []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "pintle"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gateway.Controller}}},
		Gateways: []*gatewayv1.Gateway{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "edge", UID: "edge"}, Spec: gatewayv1.GatewaySpec{GatewayClassName: "pintle", Listeners: []gatewayv1.Listener{
			{Name: "http", Port: 0, Protocol: gatewayv1.HTTPProtocolType, Hostname: ptr.To(gatewayv1.Hostname("a.test"))}}}}},
	}
	offer := func() (withdraw func()) {
		return with.Offer(func() *gateway.Objects { return objects }, func(gateway.Output) {})
	}
	withdraw := offer()
	r := startWith(t, with, class("pintle", Controller))
	owner := func(want string) {
		t.Helper()
		eventually(t, func() error {
			table := r.table.Load()
			if table == nil || table.Owners()["a.test"] != want {
				return fmt.Errorf("the host is not of %q", want)
			}
			return nil
		})
	}
	owner("shop")
	withdraw()
	thief := ingress("mallory", "thief", "pintle", "a.test", "web")
	if _, err := r.client.NetworkingV1().Ingresses("mallory").Create(t.Context(), thief, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if len(r.events("HostConflict")) == 0 {
			return fmt.Errorf("the thief has no event")
		}
		return nil
	})
	owner("shop")
	defer offer()()
	owner("shop")
}

// edge are the objects of one Gateway, whose listener is of the port that the tests' settings
// have.
func edge() *gateway.Objects {
	return &gateway.Objects{
		Classes: []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "pintle"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gateway.Controller}}},
		Gateways: []*gatewayv1.Gateway{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "edge", UID: "edge"}, Spec: gatewayv1.GatewaySpec{GatewayClassName: "pintle", Listeners: []gatewayv1.Listener{
			{Name: "http", Port: 0, Protocol: gatewayv1.HTTPProtocolType}}}}},
	}
}

func programmed(all []metav1.Condition) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(all, "Programmed"); c != nil {
		return c.Status
	}
	return ""
}

// TestPortTaken: while the ports cannot be listened at, no Gateway says that it is served.
func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var told []gateway.Output
	with := &gateway.Exchange{}
	defer with.Offer(func() *gateway.Objects { return edge() }, func(o gateway.Output) { told = append(told, o) })()
	client := fake.NewClientset(node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}),
		class("pintle", Controller), ingress("shop", "web", "pintle", "a.test", "web"), ingress("shop", "others", "others", "b.test", "web"))
	factory := informers.NewSharedInformerFactory(client, 0)
	s := testSettings()
	s.HTTPSAddresses = []string{taken.Addr().String()}
	k, err := build(client, factory, with, s, "n", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	if err := k.Run(ctx); err == nil {
		t.Error("it runs though its port is taken")
	}
	if len(told) != 1 {
		t.Fatalf("%d outputs are told", len(told))
	}
	events, err := client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) != 1 || events.Items[0].InvolvedObject.Name != "web" || events.Items[0].Reason != notListens || !strings.Contains(events.Items[0].Message, "listen at "+taken.Addr().String()) {
		t.Errorf("events %+v, %v", events, err)
	}
	if i, err := client.NetworkingV1().Ingresses("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || len(i.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("the Ingress that is not served has an address: %+v, %v", i, err)
	}
	if err := k.Run(ctx); err == nil { // the same event is renewed
		t.Error("it runs though its port is taken")
	}
	if events, err := client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{}); err != nil || len(events.Items) != 1 {
		t.Errorf("events %+v, %v", events, err)
	}
	g := told[0].Gateways["edge"]
	if len(g.Listeners) != 1 || programmed(g.Conditions) != metav1.ConditionFalse || programmed(g.Listeners[0].Conditions) != metav1.ConditionFalse || !meta.IsStatusConditionTrue(g.Conditions, "Accepted") {
		t.Errorf("the Gateway says %+v", g)
	}
	if !slices.Equal(g.Addresses, []string{"192.0.2.10"}) {
		t.Errorf("it has the addresses %v", g.Addresses)
	}
}

// TestAddressesFirst: nothing is told of a Gateway before the addresses of the node are
// known: without them its status would lose those that it has.
func TestAddressesFirst(t *testing.T) {
	var mu sync.Mutex
	var told []gateway.Output
	with := &gateway.Exchange{}
	defer with.Offer(func() *gateway.Objects { return edge() }, func(o gateway.Output) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, o)
	})()
	r := startWith(t, with, class("pintle", Controller), node())
	eventually(t, func() error {
		if r.table.Load() == nil {
			return fmt.Errorf("there is no table")
		}
		if _, err := r.client.NetworkingV1().IngressClasses().Get(t.Context(), "pintle", metav1.GetOptions{}); err != nil {
			return err
		}
		return nil
	})
	if _, err := r.client.CoreV1().Nodes().UpdateStatus(t.Context(), node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.learn(t.Context()) // as the next regular round does
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 0 {
			return fmt.Errorf("nothing is told")
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	for _, o := range told {
		if g := o.Gateways["edge"]; !slices.Equal(g.Addresses, []string{"192.0.2.10"}) || programmed(g.Conditions) != metav1.ConditionTrue {
			t.Errorf("told is %+v", g)
		}
	}
}

// TestNodeWithoutAddresses: an Ingress keeps its address while the Node is not there, or has not
// told its addresses, as after a restart.
func TestNodeWithoutAddresses(t *testing.T) {
	web := ingress("shop", "web", "pintle", "a.test", "web")
	web.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.10"}}
	for _, objects := range [][]runtime.Object{{web}, {web, node()}} {
		client := fake.NewClientset(objects...)
		k, err := build(client, informers.NewSharedInformerFactory(client, 0), &gateway.Exchange{}, testSettings(), "n", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.writeStatuses(t.Context(), []*networkingv1.Ingress{web}); err != nil {
			t.Fatal(err)
		}
		for _, a := range client.Actions() {
			if a.GetVerb() == "update" {
				t.Errorf("it writes %+v", a)
			}
		}
	}
}

// TestAddressesBetween: addresses that become known after a table was made are told with the
// next one; what was made without them is not told.
func TestAddressesBetween(t *testing.T) {
	var told []gateway.Output
	with := &gateway.Exchange{}
	defer with.Offer(func() *gateway.Objects { return edge() }, func(o gateway.Output) { told = append(told, o) })()
	client := fake.NewClientset()
	k, err := build(client, informers.NewSharedInformerFactory(client, 0), with, testSettings(), "n", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k.compile()
	k.publish([]networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.10"}})
	k.tellGateways()
	if len(told) > 0 {
		t.Errorf("told is %+v", told[0].Gateways["edge"])
	}
	if len(k.wake) != 1 {
		t.Error("addresses ask for no table")
	}
	told = nil
	k.compile()
	k.tellGateways()
	if len(told) != 1 || !slices.Equal(told[0].Gateways["edge"].Addresses, []string{"192.0.2.10"}) {
		t.Errorf("told is %+v", told)
	}
}
