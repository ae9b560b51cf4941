package csr

import (
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/sdk/controller"
)

// edited is a Node with a change.
func edited(n *corev1.Node, edit func(*corev1.Node)) *corev1.Node {
	edit(n)
	return n
}

// nodeAt is a Node of an age, with addresses.
func nodeAt(name string, made int64, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(made, 0)}}
	for _, a := range addresses {
		kind := corev1.NodeHostName
		if net.ParseIP(a) != nil {
			kind = corev1.NodeInternalIP
		}
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: a})
	}
	return n
}

// TestServingApprover: a node gets a serving certificate for what its Node has, and nobody
// else, and for nothing by which it could be another.
func TestServingApprover(t *testing.T) {
	type spec = *certificatesv1.CertificateSigningRequest
	own := func(x *x509.CertificateRequest) {
		x.DNSNames, x.IPAddresses = []string{"n"}, []net.IP{net.IPv4(192, 0, 2, 11)}
	}
	with := func(dns string, ip string) func(*x509.CertificateRequest) {
		return func(x *x509.CertificateRequest) {
			if own(x); dns != "" {
				x.DNSNames = []string{dns}
			}
			if ip != "" {
				x.IPAddresses = []net.IP{net.ParseIP(ip)}
			}
		}
	}
	for name, tc := range map[string]struct {
		x     func(*x509.CertificateRequest)
		edit  func(spec)
		node  *corev1.Node // n, if not the usual one
		there []runtime.Object
		apis  []string // the API server's addresses, if not the usual one
		fine  bool
	}{
		"its own":               {x: own, fine: true},
		"without encipherment":  {x: own, fine: true, edit: func(r spec) { r.Spec.Usages = r.Spec.Usages[1:] }},
		"an address alone":      {x: func(x *x509.CertificateRequest) { x.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 11)} }, fine: true},
		"an address of none":    {x: with("", "192.0.2.99")},
		"a name of none":        {x: with("m", "")},
		"nothing":               {},
		"before it registers":   {x: own, node: nodeAt("other", 1, "192.0.2.11", "n")},
		"by another":            {x: own, edit: func(r spec) { r.Spec.Username = "system:node:m" }},
		"by a token":            {x: own, edit: func(r spec) { r.Spec.Username = "system:bootstrap:abcdef" }},
		"by one that is none":   {x: own, edit: func(r spec) { r.Spec.Groups = []string{"system:authenticated"} }},
		"as a client too":       {x: own, edit: func(r spec) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageClientAuth) }},
		"of another signer":     {x: own, edit: func(r spec) { r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName }},
		"of administrators":     {x: func(x *x509.CertificateRequest) { own(x); x.Subject.Organization = []string{"system:masters"} }},
		"with a URI":            {x: func(x *x509.CertificateRequest) { own(x); x.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }},
		"with mail":             {x: func(x *x509.CertificateRequest) { own(x); x.EmailAddresses = []string{"a@b"} }},
		"loopback":              {x: with("", "127.0.0.1"), node: nodeAt("n", 5, "127.0.0.1", "n")},
		"localhost":             {x: with("localhost", ""), node: nodeAt("n", 5, "192.0.2.11", "localhost")},
		"metadata of clouds":    {x: with("", "169.254.169.254"), node: nodeAt("n", 5, "169.254.169.254", "n")},
		"the API by name":       {x: with("kubernetes.default", ""), node: nodeAt("n", 5, "192.0.2.11", "kubernetes.default")},
		"a service by name":     {x: with("web.shop.svc", ""), node: nodeAt("n", 5, "192.0.2.11", "web.shop.svc")},
		"a service, in full":    {x: with("web.shop.SVC.cluster.local.", ""), node: nodeAt("n", 5, "192.0.2.11", "web.shop.SVC.cluster.local.")},
		"everything":            {x: with("*.example.com", ""), node: nodeAt("n", 5, "192.0.2.11", "*.example.com")},
		"the API server":        {x: with("", "192.0.2.10"), node: nodeAt("n", 5, "192.0.2.10", "n")},
		"a service's address":   {x: with("", "10.98.0.7"), node: nodeAt("n", 5, "10.98.0.7", "n")},
		"a balancer's":          {x: with("", "10.97.0.1"), node: nodeAt("n", 5, "10.97.0.1", "n")},
		"an elder node's":       {x: own, there: []runtime.Object{nodeAt("m", 1, "192.0.2.11")}},
		"a younger node's":      {x: own, there: []runtime.Object{nodeAt("m", 9, "192.0.2.11")}},
		"a younger's hostname":  {x: own, there: []runtime.Object{nodeAt("m", 9, "n")}},
		"a hostname of its own": {x: with("box-7", ""), node: nodeAt("n", 5, "192.0.2.11", "box-7"), fine: true},
		"its name, by no entry": {x: own, node: nodeAt("n", 5, "192.0.2.11"), fine: true},
		"a DNS name of another": {x: with("shop.example.com", ""), node: edited(nodeAt("n", 5, "192.0.2.11", "n"), func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: "shop.example.com"})
		})},
		"an address as a name": {x: with("192.0.2.10", ""), node: edited(nodeAt("n", 5, "192.0.2.11"), func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "192.0.2.10"})
		})},
		"IPv6 as a name": {x: with("2001:db8::1", ""), node: edited(nodeAt("n", 5, "192.0.2.11"), func(n *corev1.Node) {
			n.Status.Addresses[0] = corev1.NodeAddress{Type: corev1.NodeHostName, Address: "2001:db8::1"}
		})},
		"no DNS name":           {x: with("N_1", ""), node: nodeAt("n", 5, "192.0.2.11", "N_1")},
		"a later service's":     {x: with("", "10.96.200.9"), node: nodeAt("n", 5, "10.96.200.9", "n")},
		"another's pod":         {x: with("", "10.244.1.9"), node: nodeAt("n", 5, "10.244.1.9", "n"), there: []runtime.Object{edited(nodeAt("m", 1), func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.1.0/24", []string{"10.244.1.0/24"} })}},
		"beside the pods":       {x: with("", "10.244.2.9"), node: nodeAt("n", 5, "10.244.2.9", "n"), there: []runtime.Object{edited(nodeAt("m", 1), func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.1.0/24", []string{"10.244.1.0/24"} })}, fine: true},
		"no API server known":   {x: own, apis: []string{}},
		"an elder node's name":  {x: with("m", ""), node: nodeAt("n", 5, "192.0.2.11", "m"), there: []runtime.Object{nodeAt("m", 9)}},
		"in IPv6, written else": {x: with("", "2001:db8::b"), node: nodeAt("n", 5, "2001:0db8:0::000b", "n"), fine: true},
	} {
		t.Run(name, func(t *testing.T) {
			request := node(t, tc.x, func(r spec) {
				r.Spec.SignerName, r.Spec.Groups = certificatesv1.KubeletServingSignerName, []string{"system:nodes", "system:authenticated"}
				r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageKeyEncipherment, certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
				if tc.edit != nil {
					tc.edit(r)
				}
			})
			if tc.node == nil {
				tc.node = nodeAt("n", 5, "192.0.2.11", "n")
			}
			if tc.apis == nil {
				tc.apis = []string{"192.0.2.10"}
			}
			objects := append(tc.there, request, tc.node,
				&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}},
				&discoveryv1.EndpointSlice{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{"kubernetes.io/service-name": "kubernetes"}},
					Endpoints:  []discoveryv1.Endpoint{{Addresses: tc.apis}},
				},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.98.0.7"},
					Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "10.97.0.1"}}}}})
			client := fake.NewClientset(objects...)
			shared := informers.NewSharedInformerFactory(client, 0)
			r, err := NewServingApprover(&controller.Context{Client: client, Informers: shared, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			shared.StartWithContext(t.Context())
			shared.WaitForCacheSync(t.Context().Done())
			t.Cleanup(shared.Shutdown)
			_ = r.(*servingApprover).sync(t.Context(), "r")
			now, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "r", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if approved := len(now.Status.Conditions) == 1 && now.Status.Conditions[0].Type == certificatesv1.CertificateApproved; approved != tc.fine {
				t.Errorf("conditions are %+v", now.Status.Conditions)
			}
		})
	}
}

// TestApproverOfLivingNode: who holds a token does not get the certificate of a Node that
// exists, nor when it is deleted later; the node itself does. Of another, an old request is
// left for a person.
func TestApproverOfLivingNode(t *testing.T) {
	const token, approved, denied = "system:bootstrap:abcdef", certificatesv1.CertificateApproved, certificatesv1.CertificateDenied
	for name, tc := range map[string]struct {
		requestor string
		there     bool
		age       time.Duration
		want      certificatesv1.RequestConditionType // empty: undecided
	}{
		"free":               {token, false, 0, approved},
		"free, for an hour":  {token, false, freshFor, approved},
		"free, for longer":   {token, false, freshFor + time.Second, ""},
		"taken":              {token, true, 0, denied},
		"taken for long":     {token, true, 2 * freshFor, denied},
		"by another node":    {"system:node:m", true, 0, denied},
		"by itself":          {"system:node:n", true, 0, approved},
		"by itself, at last": {"system:node:n", true, 2 * freshFor, approved},
	} {
		t.Run(name, func(t *testing.T) {
			made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			request := node(t, nil, func(r *certificatesv1.CertificateSigningRequest) {
				r.Spec.Username, r.CreationTimestamp = tc.requestor, metav1.NewTime(made)
			})
			objects := []runtime.Object{request}
			if tc.there {
				objects = append(objects, nodeAt("n", made.Unix()))
			}
			client := allowing(fake.NewClientset(objects...))
			requests := client.CertificatesV1().CertificateSigningRequests()
			a := approverOf(t, client, request)
			a.now = func() time.Time { return made.Add(tc.age) }
			decided := func() *certificatesv1.CertificateSigningRequestCondition {
				t.Helper()
				if err := a.sync(t.Context(), "r"); err != nil {
					t.Fatal(err)
				}
				now, err := requests.Get(t.Context(), "r", metav1.GetOptions{})
				if err != nil || len(now.Status.Conditions) > 1 {
					t.Fatalf("%+v, %v", now.Status.Conditions, err)
				}
				if err := a.informer.GetIndexer().Update(now); err != nil {
					t.Fatal(err)
				}
				if len(now.Status.Conditions) == 0 {
					return &certificatesv1.CertificateSigningRequestCondition{}
				}
				return &now.Status.Conditions[0]
			}
			c := decided()
			if c.Type != tc.want {
				t.Fatalf("%+v, want %q", c, tc.want)
			}
			if tc.want == denied {
				if c.Reason != "NodeExists" || !strings.Contains(c.Message, "Node n exists") || !strings.Contains(c.Message, "pintle kubectl delete node n") {
					t.Errorf("%+v", c)
				}
				if err := client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				if c := decided(); c.Type != denied {
					t.Errorf("with the Node deleted: %+v", c)
				}
			}
		})
	}
}

// allowing has each SubjectAccessReview allow.
func allowing(client *fake.Clientset) *fake.Clientset {
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	return client
}
