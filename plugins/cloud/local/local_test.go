package local

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/cloud"
)

// begin makes a provider over objects.
func begin(t *testing.T, config string, objects ...runtime.Object) (*provider, error) {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	made, err := New(&cloud.Context{Name: Name, Config: []byte(config), Client: client, Informers: factory})
	if err != nil {
		return nil, err
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return made.(*provider), nil
}

func balancer(name string, with func(*corev1.Service), has ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name)}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for _, ip := range has {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	if with != nil {
		with(s)
	}
	return s
}

func wants(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
}

func (p *provider) ask(t *testing.T, s *corev1.Service) (string, error) {
	t.Helper()
	status, err := p.EnsureLoadBalancer(t.Context(), "", s, nil)
	if err != nil {
		return "", err
	}
	if len(status.Ingress) != 1 || status.Ingress[0].IPMode == nil || *status.Ingress[0].IPMode != corev1.LoadBalancerIPModeVIP {
		t.Fatalf("%s: %+v", s.Name, status.Ingress)
	}
	return status.Ingress[0].IP, nil
}

func (p *provider) gets(t *testing.T, s *corev1.Service, want string) {
	t.Helper()
	if got, err := p.ask(t, s); err != nil || got != want {
		t.Errorf("%s gets %s, %v; want %s", s.Name, got, err, want)
	}
}

func (p *provider) refuses(t *testing.T, s *corev1.Service, words string) {
	t.Helper()
	got, err := p.ask(t, s)
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s gets %s, %v; want %q", s.Name, got, err, words)
	}
	var again *api.RetryError
	if !errors.As(err, &again) || again.RetryAfter() != 30*time.Second {
		t.Errorf("%s: %v is not tried again after a while", s.Name, err)
	}
}

// loses asks for a service with an address in its status, and once more without it.
func (p *provider) loses(t *testing.T, s *corev1.Service, words, then string) {
	t.Helper()
	got, err := p.ask(t, s)
	var withdrawn *cloud.Withdrawn
	var again *api.RetryError
	if !errors.As(err, &withdrawn) || !errors.As(err, &again) || again.RetryAfter() != time.Second || err.Error() != words {
		t.Errorf("%s gets %s, %v; want %q", s.Name, got, err, words)
	}
	if _, has, err := p.GetLoadBalancer(t.Context(), "", s); has || err != nil {
		t.Errorf("%s still has a load balancer, %v", s.Name, err)
	}
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = nil
	if then == "" {
		p.refuses(t, s, "spec.loadBalancerIP "+s.Spec.LoadBalancerIP)
		return
	}
	p.gets(t, s, then)
}

// TestWithdrawn: an address that a service has is tested again. A service loses one that is
// outside the ranges or another's, and keeps one that others only ask for.
func TestWithdrawn(t *testing.T) {
	const config = `{"addresses":["192.0.2.0/24"]}`
	later := map[string]runtime.Object{
		"node":       &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}},
		"pods":       &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"192.0.2.1/32"}}},
		"API server": &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}},
		"range":      &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"192.0.2.0/31"}}},
		"cluster IP": &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "inner"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"192.0.2.1"}}},
	}
	words := map[string]string{
		"node": "it is an address of a node", "pods": "it is in the range of a node's pods", "API server": "it is an address of an API server",
		"range": "it is in a range of cluster IPs", "cluster IP": "it is a cluster IP",
	}
	has := balancer("web", nil, "192.0.2.1")
	for name, o := range later {
		t.Run(name+" at the start", func(t *testing.T) {
			p, err := begin(t, config, has, o)
			if err != nil {
				t.Fatal(err)
			}
			p.loses(t, has, "address 192.0.2.1 is withdrawn: "+words[name], "192.0.2.2")
		})
		t.Run(name+" later", func(t *testing.T) {
			p, err := begin(t, config, has)
			if err != nil {
				t.Fatal(err)
			}
			p.gets(t, has, "192.0.2.1")
			with, err := begin(t, config, o)
			if err != nil {
				t.Fatal(err)
			}
			p.nodes, p.cidrs, p.slices, p.services = with.nodes, with.cidrs, with.slices, with.services
			p.loses(t, has, "address 192.0.2.1 is withdrawn: "+words[name], "192.0.2.2")
		})
	}
	t.Run("wanted", func(t *testing.T) { // it may not have what it wants any more, nor keep it
		s := balancer("web", wants("203.0.113.1"), "203.0.113.1")
		p, err := begin(t, config, s)
		if err != nil {
			t.Fatal(err)
		}
		p.loses(t, s, "address 203.0.113.1 is withdrawn: it is not in 192.0.2.0/24", "")
	})
	t.Run("asked for by others", func(t *testing.T) {
		p, err := begin(t, config, has, balancer("metal", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/metal") }, "192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		p.gets(t, has, "192.0.2.1")
		other, err := begin(t, config, has, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mallory", Name: "outer"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}}})
		if err != nil {
			t.Fatal(err)
		}
		other.gets(t, has, "192.0.2.1")
		other.gets(t, has, "192.0.2.1")
	})
}

// TestCacheIsLate: a provider that starts where another ran before learns from the API
// server who has which address, and a service's own status counts.
func TestCacheIsLate(t *testing.T) {
	has := balancer("web", nil, "192.0.2.1")
	p, err := begin(t, `{"addresses":["192.0.2.0/29"]}`, has)
	if err != nil {
		t.Fatal(err)
	}
	late, err := begin(t, "")
	if err != nil {
		t.Fatal(err)
	}
	p.services = late.services // the cache does not have it yet
	p.gets(t, balancer("new", nil), "192.0.2.2")
	p.gets(t, balancer("web", nil), "192.0.2.1")
	p.gets(t, balancer("unknown", nil, "192.0.2.5"), "192.0.2.5")
	p.loses(t, balancer("thief", nil, "192.0.2.5"), "address 192.0.2.5 is withdrawn: another service has it", "192.0.2.3")
}

// TestAddresses: a service keeps its address, and one that is given up is free.
func TestAddresses(t *testing.T) {
	p, err := begin(t, `{"addresses":["192.0.2.1-192.0.2.2"]}`)
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := balancer("one", nil), balancer("two", nil), balancer("three", nil)
	p.gets(t, one, "192.0.2.1")
	p.gets(t, two, "192.0.2.2")
	p.gets(t, one, "192.0.2.1")
	p.refuses(t, three, "no address of 192.0.2.1-192.0.2.2 is free: delete a service of type LoadBalancer, or give the cloud provider local more addresses")
	if _, has, err := p.GetLoadBalancer(t.Context(), "", three); has || err != nil {
		t.Errorf("three has a load balancer, %v", err)
	}
	// One of the same name is another service.
	other := balancer("one", func(s *corev1.Service) { s.UID = "another" })
	if err := p.EnsureLoadBalancerDeleted(t.Context(), "", other); err != nil {
		t.Fatal(err)
	}
	if status, has, err := p.GetLoadBalancer(t.Context(), "", one); !has || err != nil || status.Ingress[0].IP != "192.0.2.1" {
		t.Errorf("one has %v, %t, %v", status, has, err)
	}
	for range 2 {
		if err := p.EnsureLoadBalancerDeleted(t.Context(), "", one); err != nil {
			t.Fatal(err)
		}
	}
	p.gets(t, three, "192.0.2.1")
	p.refuses(t, other, "no address")
	if err := p.UpdateLoadBalancer(t.Context(), "", two, nil); err != nil {
		t.Error(err)
	}
}

// TestRestart: a new process gives every service the address that its status has.
func TestRestart(t *testing.T) {
	young := balancer("young", func(s *corev1.Service) { s.CreationTimestamp = metav1.Unix(200, 0) }, "192.0.2.3")
	old := balancer("old", func(s *corev1.Service) { s.CreationTimestamp = metav1.Unix(100, 0) }, "192.0.2.3")
	kept, moved := balancer("kept", nil, "192.0.2.6"), balancer("moved", nil, "203.0.113.9")
	p, err := begin(t, `{"addresses":["192.0.2.0/29"]}`, young, old, kept, moved, balancer("rubbish", nil, "x", ""))
	if err != nil {
		t.Fatal(err)
	}
	p.gets(t, balancer("new", nil), "192.0.2.1")
	p.gets(t, old, "192.0.2.3")
	p.gets(t, kept, "192.0.2.6")
	// Both had one: the older service keeps it. The range is another now.
	p.loses(t, young, "address 192.0.2.3 is withdrawn: another service has it", "192.0.2.2")
	p.loses(t, moved, "address 203.0.113.9 is withdrawn: it is not in 192.0.2.0/29", "192.0.2.4")
	if _, has, err := p.GetLoadBalancer(t.Context(), "", kept); !has || err != nil {
		t.Errorf("kept has none, %v", err)
	}
}

// TestWantedAddress: spec.loadBalancerIP gives what is free and the pool's, and no more.
// Who asks does not learn who has an address.
func TestWantedAddress(t *testing.T) {
	const pool = `{"addresses":["192.0.2.0/24","198.51.100.0/24","10.96.0.0/24","10.244.0.0/28"]}`
	p, err := begin(t, pool,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: "n"}}}},
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.2"}}},
		},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "moved-range"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"198.51.100.1"}}},
		balancer("metal", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/metal") }, "192.0.2.4"),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "outer"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.6", "192.0.2.66"}}},
		balancer("both", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.67"} }),
	)
	if err != nil {
		t.Fatal(err)
	}
	p.gets(t, balancer("first", nil), "192.0.2.3")
	p.gets(t, balancer("chosen", wants("192.0.2.77")), "192.0.2.77")
	p.gets(t, balancer("next", nil), "192.0.2.5")
	p.gets(t, balancer("one more", nil), "192.0.2.7")
	for ip, words := range map[string]string{
		"192.0.2.77":   "another service has it",
		"192.0.2.3":    "another service has it",
		"192.0.2.4":    "another load balancer has it",
		"192.0.2.66":   "it is an external IP of another service",
		"192.0.2.67":   "it is an external IP of another service",
		"192.0.2.1":    "it is an address of a node",
		"192.0.2.2":    "it is an address of an API server",
		"10.96.0.1":    "it is in a range of cluster IPs",
		"198.51.100.1": "it is a cluster IP",
		"10.244.0.5":   "it is in the range of a node's pods",
		"203.0.113.1":  "it is not in 192.0.2.0/24, 198.51.100.0/24, ",
		"192.0.2.0":    "it is not in",
		"127.0.0.1":    "it is not in",
		"2001:db8::1":  "it is not in",
	} {
		s := balancer("thief", wants(ip))
		p.refuses(t, s, "spec.loadBalancerIP "+ip+": "+words)
		if _, err := p.ask(t, s); strings.Contains(fmt.Sprint(err), "chosen") || strings.Contains(fmt.Sprint(err), "first") {
			t.Errorf("%v names another's service", err)
		}
	}
	if _, err := p.ask(t, balancer("thief", wants("192.0.2.3\nx"))); err == nil || !strings.Contains(err.Error(), "is no IP address") {
		t.Errorf("rubbish: %v", err)
	}
	// What it has it keeps while it cannot have what it wants, and then changes.
	p.refuses(t, balancer("first", wants("192.0.2.77")), "another service has it")
	p.gets(t, balancer("first", nil), "192.0.2.3")
	if err := p.EnsureLoadBalancerDeleted(t.Context(), "", balancer("chosen", nil)); err != nil {
		t.Fatal(err)
	}
	p.gets(t, balancer("first", wants("192.0.2.77")), "192.0.2.77")
	p.gets(t, balancer("after", nil), "192.0.2.3")
	p.gets(t, balancer("both", wants("192.0.2.67")), "192.0.2.67") // its own
}

// TestNothingOrdinary: a range that is others' as a whole has no address to give.
func TestNothingOrdinary(t *testing.T) {
	p, err := begin(t, `{"addresses":["10.96.0.0/17"]}`, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}})
	if err != nil {
		t.Fatal(err)
	}
	p.refuses(t, balancer("one", nil), "no address of 10.96.0.0/17 is free")
}

func TestRanges(t *testing.T) {
	for config, want := range map[string]string{
		``: "10.97.0.1 10.97.0.254 fd00:97::1 fd00:97::ff", `{}`: "10.97.0.1 10.97.0.254 fd00:97::1 fd00:97::ff",
		`{"addresses":["192.0.2.7/29"]}`:                                                        "192.0.2.1 192.0.2.6",
		`{"addresses":["192.0.2.4/31"]}`:                                                        "192.0.2.4 192.0.2.5",
		`{"addresses":["192.0.2.4/32"]}`:                                                        "192.0.2.4 192.0.2.4",
		`{"addresses":["192.0.2.4 - 192.0.2.9","10.0.0.1/32"]}`:                                 "192.0.2.4 192.0.2.9 10.0.0.1 10.0.0.1",
		`{"addresses":["10.1.0.0/16"]}`:                                                         "10.1.0.1 10.1.255.254",
		`{"addresses":[]}`:                                                                      "want a range, such as 10.97.0.0/24",
		`{"addresses":["192.0.2.1"]}`:                                                           `"192.0.2.1": want addresses as 192.0.2.0/28, `,
		`{"addresses":["192.0.2.9-192.0.2.1"]}`:                                                 "want addresses as",
		`{"addresses":["192.0.2.9-"]}`:                                                          "want addresses as",
		`{"addresses":["2001:db8::/120"]}`:                                                      "2001:db8::1 2001:db8::ff",
		`{"addresses":["2001:db8::7/127","192.0.2.4/31"]}`:                                      "2001:db8::6 2001:db8::7 192.0.2.4 192.0.2.5",
		`{"addresses":["2001:db8::/112","10.1.0.0/16"]}`:                                        "2001:db8::1 2001:db8::ffff 10.1.0.1 10.1.255.254",
		`{"addresses":["2001:db8::1-2001:db8::2"]}`:                                             "2001:db8::1 2001:db8::2",
		`{"addresses":["2001:db8::/111"]}`:                                                      "more than 65536 addresses in all; of IPv6 that is one /112",
		`{"addresses":["2001:db8::/64"]}`:                                                       "more than 65536 addresses",
		`{"addresses":["::/0"]}`:                                                                "proxies serve no address of ::/96",
		`{"addresses":["2001:db8::-2001:db8:1::"]}`:                                             "more than 65536 addresses",
		`{"addresses":["2001:db8::/120","2001:db8::80/128"]}`:                                   "overlap",
		`{"addresses":["2001:db8::1-192.0.2.9"]}`:                                               "want addresses as",
		`{"addresses":["2001:db8::1%eth0-2001:db8::2%eth0"]}`:                                   "want addresses as",
		`{"addresses":["::ffff:192.0.2.0/120"]}`:                                                "want addresses as",
		`{"addresses":["fe80::/120"]}`:                                                          "proxies serve no address of fe80::/10",
		`{"addresses":["ff02::/120"]}`:                                                          "proxies serve no address of ff00::/8",
		`{"addresses":["::1-::2"]}`:                                                             "proxies serve no address of ::/96",
		`{"addresses":["10.0.0.0/8"]}`:                                                          "more than 65536 addresses",
		`{"addresses":["10.0.0.0/16","10.1.0.0/16","10.2.0.1/32","10.2.0.2/32","10.2.0.3/32"]}`: "more than 65536 addresses",
		`{"addresses":["10.0.0.0/24","10.0.0.0-10.0.0.9"]}`:                                     "overlap",
		`{"addresses":["127.0.0.0/24"]}`:                                                        "proxies serve no address of ",
		`{"addresses":["0.0.0.0/24"]}`:                                                          "proxies serve no address of ",
		`{"addresses":["224.0.0.0/24"]}`:                                                        "proxies serve no address of ",
		`{"addresses":["255.255.255.255/32"]}`:                                                  "proxies serve no address of ",
		`{"addresses":["169.254.1.0/24"]}`:                                                      "proxies serve no address of ",
		`{"addresses":["0.0.0.0/0"]}`:                                                           "proxies serve no address of ",
		`{"addresses":"10.0.0.0/24"}`:                                                           "cannot unmarshal",
		`{"adresses":["10.0.0.0/24"]}`:                                                          `unknown field "adresses"`,
	} {
		p, err := begin(t, config)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", config, err, want)
			}
			continue
		}
		var got []string
		for _, s := range p.ranges {
			got = append(got, s.first.String(), s.last.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", config, got, want)
		}
	}
}

// TestFamilies: a service gets an address of each of its families, keeps them over a restart,
// and gives that of a family up which it has no more.
func TestFamilies(t *testing.T) {
	const both = `{"addresses":["192.0.2.0/29","2001:db8::/125"]}`
	of := func(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, families }
	}
	const four, six = corev1.IPv4Protocol, corev1.IPv6Protocol
	const single, prefer, require = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	asked := func(p *provider, s *corev1.Service) string {
		t.Helper()
		status, err := p.EnsureLoadBalancer(t.Context(), "", s, nil)
		if err != nil {
			return err.Error()
		}
		var ips []string
		for _, in := range status.Ingress {
			ips = append(ips, in.IP)
		}
		again, has, err := p.GetLoadBalancer(t.Context(), "", s)
		if err != nil || !has || !apiequality.Semantic.DeepEqual(status, again) {
			t.Errorf("%s has %v, %t, %v, and got %v", s.Name, again, has, err, ips)
		}
		return strings.Join(ips, " ")
	}
	begun := func(config string, objects ...runtime.Object) *provider {
		t.Helper()
		p, err := begin(t, config, objects...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) || want == "" {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"2001:db8:1::/64"}}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "2001:db8::1"}}}}
	p := begun(both, node)
	want("IPv6", asked(p, balancer("a", of(single, six))), "2001:db8::2")
	want("both", asked(p, balancer("b", of(require, six, four))), "2001:db8::3 192.0.2.1")
	want("in another order", asked(p, balancer("b", of(require, four, six))), "192.0.2.1 2001:db8::3")
	want("IPv4", asked(p, balancer("c", of(single, four))), "192.0.2.2")
	want("preferred", asked(p, balancer("d", of(prefer, four, six))), "192.0.2.3 2001:db8::4")
	chosen := func(ip string, with func(*corev1.Service)) *corev1.Service {
		s := balancer("e", with)
		s.Spec.LoadBalancerIP = ip
		return s
	}
	want("chosen", asked(p, chosen("2001:db8::7", of(require, four, six))), "192.0.2.4 2001:db8::7")
	want("chosen of the other family", asked(p, chosen("192.0.2.6", of(require, four, six))), "192.0.2.6 2001:db8::7")
	want("chosen of no family of its own", asked(p, chosen("2001:db8::5", of(single, four))), "the service has no addresses of IPv6")
	want("chosen, a node's", asked(p, chosen("2001:db8::1", of(single, six))), "it is an address of a node")
	want("chosen, another's", asked(p, chosen("2001:db8::2", of(single, six))), "another service has it")
	want("chosen of no range", asked(p, chosen("2001:db8:9::1", of(require, four, six))), "it is not in 192.0.2.0/29, 2001:db8::/125")

	want("one family less", asked(p, balancer("b", of(single, four))), "192.0.2.1")
	want("the address is free", asked(p, balancer("f", of(single, six))), "2001:db8::3")

	has := balancer("g", of(require, four, six), "192.0.2.5", "2001:db8::6")
	p = begun(both, has)
	want("another, after a restart", asked(p, balancer("h", of(require, six, four))), "2001:db8::1 192.0.2.1")
	want("after a restart", asked(p, has), "192.0.2.5 2001:db8::6")
	p = begun(`{"addresses":["192.0.2.0/29","2001:db8:5::/125"]}`, has)
	want("the range is another", asked(p, has), "address 2001:db8::6 is withdrawn: it is not in 192.0.2.0/29, 2001:db8:5::/125")
	has = has.DeepCopy()
	has.Status.LoadBalancer.Ingress = nil
	want("the next time", asked(p, has), "192.0.2.5 2001:db8:5::1")
	if err := p.EnsureLoadBalancerDeleted(t.Context(), "", has); err != nil {
		t.Fatal(err)
	}
	want("both are free again", asked(p, balancer("i", of(require, four, six))), "192.0.2.1 2001:db8:5::1")

	p = begun(`{"addresses":["192.0.2.0/29"]}`)
	want("no range, preferred", asked(p, balancer("a", of(prefer, six, four))), "192.0.2.1")
	want("no range, required", asked(p, balancer("b", of(require, four, six))), "there are no addresses of IPv6: give the cloud provider local a range of them (addresses)")
	want("no range of the only one", asked(p, balancer("c", of(prefer, six))), "there are no addresses of IPv6")
	want("it holds nothing that it cannot use", asked(p, balancer("d", nil)), "192.0.2.3")
}

// TestNodes: what the provider says of a node is what its agent said.
func TestNodes(t *testing.T) {
	p, err := begin(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.ProviderName() != "local" || !p.HasClusterID() {
		t.Error("its name is another, or it wants an id of the cluster")
	}
	for name, has := range map[string]func() bool{
		"instances": func() bool { _, has := p.Instances(); return has }, "zones": func() bool { _, has := p.Zones(); return has },
		"clusters": func() bool { _, has := p.Clusters(); return has }, "routes": func() bool { _, has := p.Routes(); return has },
	} {
		if has() {
			t.Errorf("it has %s", name)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	for id, want := range map[string]string{"": "local://n", "metal://7": "metal://7"} {
		node.Spec.ProviderID = id
		got, err := p.InstanceMetadata(t.Context(), node)
		if err != nil || got.ProviderID != want || len(got.NodeAddresses) != 1 || got.NodeAddresses[0].Address != "192.0.2.1" || got.Zone+got.Region+got.InstanceType != "" || len(got.AdditionalLabels) > 0 {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
	exists, err1 := p.InstanceExists(t.Context(), node)
	down, err2 := p.InstanceShutdown(t.Context(), node)
	if !exists || down || err1 != nil || err2 != nil {
		t.Errorf("exists %t, %v; shut down %t, %v", exists, err1, down, err2)
	}
}
