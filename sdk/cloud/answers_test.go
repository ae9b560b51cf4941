package cloud

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func serviceNamed(name string, port int32, has ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: port}}},
	}
	for _, ip := range has {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func at(ips ...string) *corev1.LoadBalancerStatus {
	return &serviceNamed("", 0, ips...).Status.LoadBalancer
}

// TestAnswers: what a provider answers takes nobody else's traffic, and names nobody.
func TestAnswers(t *testing.T) {
	bank := serviceNamed("bank", 443, "198.51.100.7")
	bank.Spec.ClusterIPs = []string{"10.96.0.7"}
	other := serviceNamed("other", 443, "198.51.100.8")
	other.Namespace = "mallory"
	outer := serviceNamed("outer", 8443)
	outer.Namespace, outer.Spec.ExternalIPs = "mallory", []string{"198.51.100.9", "198.51.100.20"}
	near := serviceNamed("near", 8443)
	near.Spec.ExternalIPs = []string{"198.51.100.10"}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(
		bank, other, outer, near, serviceNamed("one", 80), serviceNamed("two", 80), serviceNamed("three", 80), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}},
	), 0)
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	a := newAnswers(services.Lister(), nodes.Lister())
	services.Informer()
	nodes.Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	const taken = "another service has on the same port"
	for _, c := range []struct {
		name   string
		port   int32
		answer *corev1.LoadBalancerStatus
		want   string
	}{
		{"an address", 80, at("198.51.100.1"), ""},
		{"none yet", 80, at(), ""},
		{"a name", 80, &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}}, ""},
		{"another's port", 443, at("198.51.100.7"), taken},
		{"another port of another's address", 80, at("198.51.100.7"), ""},
		{"another port of an address of another namespace", 80, at("198.51.100.8"), "a service of another namespace has"},
		{"external IP of another namespace", 80, at("198.51.100.9"), "a service of another namespace has"},
		{"external IP", 8443, at("198.51.100.10"), taken},
		{"another port of an external IP", 80, at("198.51.100.10"), ""},
		{"cluster IP", 80, at("198.51.100.1", "10.96.0.7"), "10.96.0.7, which is the cluster IP of a service"},
		{"node", 80, at("192.0.2.1"), "192.0.2.1, which is an address of node n; one that serves at nodes says ipMode Proxy"},
		{"node, by its own data path", 80, &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}}}, ""},
		{"empty", 80, at(""), "an address that is empty"},
		{"rubbish", 80, at("10.0.0.300"), "which is not an IP address"},
		{"long rubbish", 80, at(strings.Repeat("x", 1<<20)), "which is not an IP address"},
		{"written otherwise", 80, at("::ffff:10.96.0.7"), "which is not an IP address"},
		{"with a zone", 80, at("fe80::1%eth0"), "which is not an IP address"},
		{"loopback", 80, at("127.0.0.1"), "at which no load balancer can be"},
		{"loopback of IPv6", 80, at("::1"), "at which no load balancer can be"},
		{"unspecified", 80, at("0.0.0.0"), "at which no load balancer can be"},
		{"multicast", 80, at("224.0.0.1"), "at which no load balancer can be"},
		{"link-local", 80, at("169.254.169.254"), "at which no load balancer can be"},
		{"broadcast", 80, at("255.255.255.255"), "at which no load balancer can be"},
		{"too many", 80, at(make([]string, 65)...), "65 addresses, of which 1 are too many"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serviceNamed("new", c.port)
			err := a.take(s, c.answer)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "bank") || len(err.Error()) > 200) {
				t.Errorf("%v", err)
			}
		})
	}
	// Before the cache has the status of the one, the other does not get its address.
	if err := a.take(serviceNamed("one", 80), at("198.51.100.2")); err != nil {
		t.Fatal(err)
	}
	if err := a.take(serviceNamed("two", 80), at("198.51.100.2")); err == nil || !strings.Contains(err.Error(), taken) {
		t.Error(err)
	}
	if err := a.take(serviceNamed("one", 80), at("198.51.100.2")); err != nil {
		t.Errorf("once more: %v", err)
	}
	a.forget(serviceNamed("one", 80))
	if err := a.take(serviceNamed("two", 80), at("198.51.100.2")); err != nil {
		t.Errorf("when it is free: %v", err)
	}
	// One of the same name is another, and takes nothing from the one that is there.
	ghost := serviceNamed("two", 80)
	ghost.UID = "another"
	a.forget(ghost)
	if err := a.take(serviceNamed("three", 80), at("198.51.100.2")); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("after another's end: %v", err)
	}
	// What a service has it keeps, whatever others ask for.
	if err := a.take(serviceNamed("three", 80, "198.51.100.20"), at("198.51.100.20", "198.51.100.21")); err != nil {
		t.Errorf("what it has: %v", err)
	}
	// A service that is gone has nothing.
	if err := a.take(ghost, at("198.51.100.3")); err != nil {
		t.Fatal(err)
	}
	if err := a.take(serviceNamed("one", 80), at("198.51.100.3")); err != nil {
		t.Errorf("of a service that is gone: %v", err)
	}
	if _, left := a.taken[types.NamespacedName{Namespace: "shop", Name: "two"}]; left {
		t.Error("the claim of a service that is gone is kept")
	}
	// So does one whose load balancer the provider does not know.
	b := balancers{&guarded{guard: newGuard(t.Context(), "p", time.Minute, quiet(), newGate()), answers: a, balancers: unknowing{}}}
	if _, exists, err := b.GetLoadBalancer(t.Context(), "", serviceNamed("one", 80)); exists || err != nil {
		t.Fatal(exists, err)
	}
	if err := a.take(serviceNamed("two", 80), at("198.51.100.3")); err != nil {
		t.Errorf("of a load balancer that is gone: %v", err)
	}
}

// unknowing is a provider that has no load balancer.
type unknowing struct{ hostile }

func (unknowing) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return nil, false, nil
}
