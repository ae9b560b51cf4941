package routes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// world has a service NAME with the port 80 for each backend that is named.
type world struct {
	services map[string]*corev1.Service
	slices   map[string][]*discoveryv1.EndpointSlice
	owners   map[string]string
	most     int
}

func (w *world) compile(all ...*networkingv1.Ingress) Output {
	most := w.most
	if most == 0 {
		most = 1000
	}
	return Compile(Input{
		Ingresses: all, Owners: w.owners, MaxPaths: most,
		Service: func(namespace, name string) *corev1.Service {
			if w.services != nil {
				return w.services[name]
			}
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}}}
		},
		Slices: func(namespace, name string) []*discoveryv1.EndpointSlice {
			if w.slices != nil {
				return w.slices[name]
			}
			return []*discoveryv1.EndpointSlice{slice("web", 8080, discoveryv1.Endpoint{Addresses: []string{"10.244.0.9"}})}
		},
	})
}

func slice(port string, number int32, all ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}, Endpoints: all}
}

// ingress is one of an age in seconds; each rule is "HOST TYPE PATH SERVICE".
func ingress(namespace, name string, age int, rules ...string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1_000_000-int64(age), 0))}}
	for _, r := range rules {
		part := strings.Split(r, " ")
		host := strings.ReplaceAll(part[0], "-", "")
		i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: part[2], PathType: ptr.To(networkingv1.PathType(part[1])), Backend: *to(part[3])}},
		}}})
	}
	return i
}

func to(service string) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func withDefault(i *networkingv1.Ingress, service string) *networkingv1.Ingress {
	i.Spec.DefaultBackend = to(service)
	return i
}

func (o *Output) leads(t *testing.T, host, path, want string) {
	t.Helper()
	got := "none"
	if b := o.Table.Find(host, path); b != nil {
		got = b.Namespace + "/" + b.Service
	}
	if got != want {
		t.Errorf("%s%s leads to %s, want %s", host, path, got, want)
	}
}

func (o *Output) reasons() []string {
	var out []string
	for _, p := range o.Problems {
		out = append(out, p.Ingress.Namespace+"/"+p.Ingress.Name+" "+p.Reason)
	}
	return out
}

// TestPathTypes is the table of the API's documentation: which path matches which request,
// and which of several rules counts (4-21.1).
func TestPathTypes(t *testing.T) {
	for _, c := range []struct {
		rules     string // "TYPE PATH SERVICE, …"
		requested string
		want      string
	}{
		{"Prefix / all", "/any/path", "all"},
		{"Exact /foo foo", "/foo", "foo"},
		{"Exact /foo foo", "/bar", ""},
		{"Exact /foo foo", "/foo/", ""},
		{"Exact /foo/ foo", "/foo", ""},
		{"Exact /foo foo", "/FOO", ""},
		{"Prefix /foo foo", "/foo", "foo"},
		{"Prefix /foo foo", "/foo/", "foo"},
		{"Prefix /foo/ foo", "/foo", "foo"},
		{"Prefix /foo/ foo", "/foo/", "foo"},
		{"Prefix /aaa/bb a", "/aaa/bbb", ""},
		{"Prefix /aaa/bbb a", "/aaa/bbb", "a"},
		{"Prefix /aaa/bbb/ a", "/aaa/bbb", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbb/", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbb/ccc", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbbxyz", ""},
		{"Prefix / root, Prefix /aaa a", "/aaa/ccc", "a"},
		{"Prefix /aaa a, Prefix / root", "/aaa/ccc", "a"},
		{"Prefix /aaa a, Prefix /aaa/bbb b", "/aaa/bbb", "b"},
		{"Prefix / root, Prefix /aaa a, Prefix /aaa/bbb b", "/ccc", "root"},
		{"Prefix /aaa a", "/ccc", ""},
		{"Exact /foo exact, Prefix /foo prefix", "/foo", "exact"},
		{"Prefix /foo prefix, Exact /foo exact", "/foo", "exact"},
		{"Prefix /foo prefix, Exact /foo exact", "/foo/bar", "prefix"},
		{"Prefix /foo short, Prefix /foo/ long", "/foo", "long"},
		{"Prefix /foo/ long, Prefix /foo short", "/foo/x", "long"},
		{"ImplementationSpecific /foo foo", "/foo/bar", "foo"},
		{"ImplementationSpecific  foo", "/any", "foo"},
		{"Prefix /private p, Prefix / root", "/public/../private", "p"},
		{"Prefix /private p, Prefix / root", "/public/..", "root"},
		{"Exact /a/ p", "/a/b/..", "p"},
		{"Prefix /a p", "/../../a/./b", "p"},
		{"Prefix /a p", strings.Repeat("/", 60_000), ""},
		{"Prefix /a p", "/a" + strings.Repeat("/x", 30_000), "p"},
	} {
		var rules []string
		for _, r := range strings.Split(c.rules, ", ") {
			rules = append(rules, "a.test "+r)
		}
		o := (&world{}).compile(ingress("shop", "i", 1, rules...))
		want := "none"
		if c.want != "" {
			want = "shop/" + c.want
		}
		t.Run(c.rules+" "+fmt.Sprintf("%.30s", c.requested), func(t *testing.T) { o.leads(t, "a.test", c.requested, want) })
	}
}

// TestHosts: an exact host goes before a wildcard, which has one label, before rules
// without a host; what the host's rules do not have is not looked for in others'.
func TestHosts(t *testing.T) {
	o := (&world{}).compile(
		ingress("shop", "one", 9, "bar.foo.com Prefix /x exact", "*.foo.com Prefix / wild", "- Prefix /y other", "Upper.Foo.COM Prefix / upper"),
		withDefault(ingress("shop", "two", 8, "b.test Prefix /x b"), "own"),
		withDefault(ingress("shop", "three", 7), "last"),
	)
	o.leads(t, "bar.foo.com", "/x", "shop/exact")
	o.leads(t, "bar.foo.com", "/", "shop/own")
	o.leads(t, "baz.foo.com", "/x", "shop/wild")
	o.leads(t, "upper.foo.com", "/x", "shop/upper")
	o.leads(t, "a.baz.foo.com", "/y", "shop/other")
	o.leads(t, "foo.com", "/y", "shop/other")
	o.leads(t, "foo.com", "/z", "shop/own")
	o.leads(t, "", "/y", "shop/other")
	o.leads(t, "b.test", "/z", "shop/own")
	if len(o.Problems) > 0 {
		t.Errorf("problems: %v", o.Problems)
	}
	if b := o.Table.Find("baz.foo.com", "/"); !slices.Equal(b.Endpoints, []string{"10.244.0.9:8080"}) || b.Scheme != HTTP {
		t.Errorf("%+v", b)
	}
	empty := (&world{}).compile()
	empty.leads(t, "a.test", "/", "none")
}

// TestConflicts: of two namespaces the older Ingress has a host; a namespace that has one
// keeps it; nobody takes a part of another's wildcard (hostile).
func TestConflicts(t *testing.T) {
	w := &world{}
	victim := ingress("bank", "main", 5, "pay.bank.test Prefix / bank", "*.apps.test Prefix / apps")
	young := ingress("mallory", "young", 1, "pay.bank.test Prefix /login evil", "own.test Prefix / own", "login.apps.test Prefix / evil", "*.bank.test Prefix / evil")
	o := w.compile(young, victim)
	o.leads(t, "pay.bank.test", "/login", "bank/bank")
	o.leads(t, "login.apps.test", "/", "bank/apps")
	o.leads(t, "own.test", "/", "mallory/own")
	o.leads(t, "other.bank.test", "/", "mallory/evil")
	if got := o.reasons(); !slices.Equal(got, []string{"mallory/young HostConflict", "mallory/young HostConflict"}) {
		t.Errorf("%v", got)
	}
	for _, p := range o.Problems {
		if strings.Contains(p.Message, "bank/") || strings.Contains(p.Message, "main") {
			t.Errorf("%q names another's object", p.Message)
		}
	}
	// Who had a host before keeps it, whatever is written into an older Ingress.
	old := ingress("mallory", "old", 1000, "pay.bank.test Prefix / evil", "free.test Prefix / free")
	w.owners = o.Table.Owners()
	o = w.compile(young, victim, old)
	o.leads(t, "pay.bank.test", "/", "bank/bank")
	o.leads(t, "free.test", "/", "mallory/free")
	// Until it gives it up.
	w.owners = o.Table.Owners()
	o = w.compile(young, old)
	o.leads(t, "pay.bank.test", "/", "mallory/evil")
	// A certificate claims its hosts, too, and default backends all that nobody names.
	secured := ingress("bank", "tls", 9)
	secured.Spec.DefaultBackend = to("front")
	secured.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"pay.bank.test"}, SecretName: "pay"}}
	thief := withDefault(ingress("mallory", "thief", 1, "pay.bank.test Prefix / evil", "- Prefix / evil"), "evil")
	thief.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"pay.bank.test", "own.test"}, SecretName: "mine"}}
	w.owners = nil
	o = w.compile(thief, secured)
	o.leads(t, "pay.bank.test", "/", "bank/front")
	o.leads(t, "any.test", "/", "bank/front")
	if s, ok := o.Table.Secret("pay.bank.test"); !ok || s != (SecretName{"bank", "pay"}) {
		t.Errorf("pay.bank.test has the certificate %v", s)
	}
	if s, ok := o.Table.Secret("own.test"); !ok || s != (SecretName{"mallory", "mine"}) {
		t.Errorf("own.test has the certificate %v", s)
	}
	// What the rules of a host do not have, nobody else has, nor a name below a wildcard (hostile).
	w.owners = nil
	o = w.compile(
		ingress("bank", "login", 9, "pay.bank.test Exact /pay bank", "*.apps.test Exact /x apps"),
		withDefault(ingress("mallory", "all", 1, "- Prefix / evil", "*.bank.test Prefix / evil"), "evil"),
		func() *networkingv1.Ingress {
			i := withDefault(ingress("bank", "quiet", 9), "none")
			i.Spec.DefaultBackend = nil
			i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"quiet.bank.test"}, SecretName: "quiet"}}
			return i
		}(),
		func() *networkingv1.Ingress {
			i := ingress("mallory", "tls", 1)
			i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"*.bank.test"}, SecretName: "evil"}}
			return i
		}(),
	)
	for _, host := range []string{"pay.bank.test", "quiet.bank.test", "a.apps.test"} {
		o.leads(t, host, "/login", "none")
	}
	o.leads(t, "pay.bank.test", "/pay", "bank/bank")
	o.leads(t, "other.bank.test", "/", "mallory/evil")
	o.leads(t, "any.test", "/", "mallory/evil")
	for host, want := range map[string]string{"pay.bank.test": "", "quiet.bank.test": "quiet", "other.bank.test": "evil"} {
		if s, _ := o.Table.Secret(host); s.Name != want {
			t.Errorf("%s has the certificate %q, want %q", host, s.Name, want)
		}
	}
	// Within one namespace the older rule has a path.
	o = (&world{}).compile(ingress("shop", "b", 1, "a.test Prefix /x second", "a.test Exact /x third"), ingress("shop", "a", 2, "a.test Prefix /x first"))
	o.leads(t, "a.test", "/x/y", "shop/first")
	o.leads(t, "a.test", "/x", "shop/third")
	if got := o.reasons(); !slices.Equal(got, []string{"shop/b PathConflict"}) {
		t.Errorf("%v", got)
	}
}

// TestBudget: one namespace cannot fill the table (hostile).
func TestBudget(t *testing.T) {
	w := &world{most: 4}
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf("h%d.test Prefix / a", i))
	}
	o := w.compile(ingress("mallory", "many", 9, many...), ingress("shop", "one", 1, "a.test Prefix / a"))
	o.leads(t, "a.test", "/", "shop/a")
	if n := len(o.Table.hosts); n > 5 {
		t.Errorf("%d hosts", n)
	}
	if len(o.Table.owners) > 5 {
		t.Errorf("%d hosts are owned", len(o.Table.owners))
	}
	if !slices.Contains(o.reasons(), "mallory/many TooManyPaths") {
		t.Errorf("%v", o.reasons())
	}
	for _, p := range o.Problems { // and is told so once
		if p.Reason != TooManyPaths || len(o.Problems) != 1 {
			t.Errorf("%v", o.reasons())
		}
	}
	// Hosts of others count, and so do those of certificates; of Secrets there is a number.
	victim := ingress("shop", "victim", 99, many[:2]...)
	o = w.compile(ingress("mallory", "many", 9, many...), victim)
	o.leads(t, "h3.test", "/", "none")
	if len(o.Problems) != 3 {
		t.Errorf("%v", o.reasons())
	}
	huge := ingress("mallory", "huge", 9)
	for i := range 100_000 {
		huge.Spec.Rules = append(huge.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.test", i)})
		huge.Spec.TLS = append(huge.Spec.TLS, networkingv1.IngressTLS{SecretName: "one"})
	}
	if o = (&world{}).compile(huge); len(o.Problems) != 1 || len(o.Table.owners) != 1000 || len(o.Certificates) != 1 {
		t.Errorf("%d problems, %d hosts, %d certificates", len(o.Problems), len(o.Table.owners), len(o.Certificates))
	}
	crowd := slice("web", 8080)
	for i := range 20_000 {
		crowd.Endpoints = append(crowd.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250)}})
	}
	left := maxLooks
	if got := endpoints([]*discoveryv1.EndpointSlice{crowd}, "web", &left); len(got) != maxEndpoints || left != maxLooks-maxEndpoints {
		t.Errorf("%d endpoints, %d looks are left", len(got), left)
	}
	for i := range crowd.Endpoints { // nobody of them is ready
		crowd.Endpoints[i].Conditions.Ready = ptr.To(false)
	}
	crowded := &world{slices: map[string][]*discoveryv1.EndpointSlice{"last": {slice("web", 8080, discoveryv1.Endpoint{Addresses: []string{"10.244.0.9"}})}}, services: map[string]*corev1.Service{}}
	var rules []string
	for i := range 9 {
		name := fmt.Sprintf("s%d", i)
		crowded.slices[name] = []*discoveryv1.EndpointSlice{crowd}
		rules = append(rules, fmt.Sprintf("a.test Exact /%d %s", i, name))
	}
	for name := range crowded.slices {
		crowded.services[name] = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}}}
	}
	o = crowded.compile(ingress("mallory", "crowd", 9, rules...), ingress("shop", "i", 1, "b.test Prefix / last"))
	if b := o.Table.Find("b.test", "/"); b == nil || len(b.Endpoints) != 1 || !slices.Contains(o.reasons(), "mallory/crowd TooManyEndpoints") || slices.Contains(o.reasons(), "shop/i TooManyEndpoints") {
		t.Errorf("%+v, %v", b, o.reasons())
	}
	secrets := ingress("mallory", "secrets", 9)
	secrets.Spec.DefaultBackend = to("a")
	for i := range MaxSecrets + 9 {
		secrets.Spec.TLS = append(secrets.Spec.TLS, networkingv1.IngressTLS{Hosts: []string{fmt.Sprintf("h%d.test", i)}, SecretName: fmt.Sprintf("s%d", i)})
	}
	o = (&world{}).compile(secrets)
	if got := o.reasons(); len(o.Certificates) != MaxSecrets || !slices.Equal(got, []string{"mallory/secrets TooManySecrets"}) {
		t.Errorf("%d certificates, %v", len(o.Certificates), got)
	}
	paths := ingress("mallory", "paths", 9, "b.test Prefix /0 a")
	for i := range 9 {
		more := paths.Spec.Rules[0].HTTP.Paths[0]
		more.Path = fmt.Sprintf("/%d", i+1)
		paths.Spec.Rules[0].HTTP.Paths = append(paths.Spec.Rules[0].HTTP.Paths, more)
	}
	o = w.compile(paths)
	o.leads(t, "b.test", "/2", "mallory/a")
	o.leads(t, "b.test", "/3", "none")
	if got := o.reasons(); !slices.Equal(got, []string{"mallory/paths TooManyPaths"}) {
		t.Errorf("%v", got)
	}
}

func TestBackends(t *testing.T) {
	service := func(kind corev1.ServiceType, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: ports}}
	}
	ready, serving, terminating := true, true, true
	w := &world{
		services: map[string]*corev1.Service{
			"many": service("", corev1.ServicePort{Name: "dns", Port: 80, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Name: "web", Port: 80},
				corev1.ServicePort{Name: "grpc", Port: 81, AppProtocol: ptr.To("kubernetes.io/h2c")}, corev1.ServicePort{Name: "tls", Port: 82, AppProtocol: ptr.To("https")},
				corev1.ServicePort{Name: "ws", Port: 83, AppProtocol: ptr.To("kubernetes.io/ws")}, corev1.ServicePort{Name: "wss", Port: 84, AppProtocol: ptr.To("kubernetes.io/wss")}),
			"away": service(corev1.ServiceTypeExternalName),
		},
		slices: map[string][]*discoveryv1.EndpointSlice{"many": {
			slice("web", 8080,
				discoveryv1.Endpoint{Addresses: []string{"10.244.0.2"}},
				discoveryv1.Endpoint{Addresses: []string{"10.244.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
				discoveryv1.Endpoint{Addresses: []string{"10.244.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: &serving, Terminating: &terminating}},
				discoveryv1.Endpoint{Addresses: []string{"127.0.0.1"}}, discoveryv1.Endpoint{Addresses: []string{"169.254.169.254"}},
				discoveryv1.Endpoint{Addresses: []string{"::ffff:127.0.0.1"}}, discoveryv1.Endpoint{Addresses: []string{"0.0.0.0"}}, discoveryv1.Endpoint{Addresses: []string{"metadata.test"}}),
			slice("web", 8080, discoveryv1.Endpoint{Addresses: []string{"10.244.0.1"}}),
			slice("grpc", 9090, discoveryv1.Endpoint{Addresses: []string{"10.244.0.4"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: &serving, Terminating: &terminating}},
				discoveryv1.Endpoint{Addresses: []string{"10.244.0.5"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}),
			{AddressType: discoveryv1.AddressTypeFQDN, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("web"), Port: ptr.To[int32](80)}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"evil.test"}}}},
		}},
	}
	for _, c := range []struct {
		backend networkingv1.IngressBackend
		scheme  Scheme
		want    string
		reason  string
	}{
		{*to("many"), HTTP, "10.244.0.1:8080 10.244.0.2:8080", ""},
		{named("many", "web"), HTTP, "10.244.0.1:8080 10.244.0.2:8080", ""},
		{named("many", "grpc"), H2C, "10.244.0.4:9090", ""},
		{named("many", "tls"), HTTPS, "", ""},
		{named("many", "ws"), HTTP, "", ""},
		{named("many", "wss"), HTTPS, "", ""},
		{named("many", "dns"), HTTP, "", MissingServicePort},
		{named("many", "none"), HTTP, "", MissingServicePort},
		{*to("away"), HTTP, "", UnsupportedBackend},
		{*to("none"), HTTP, "", MissingService},
		{networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}, "", "", UnsupportedBackend},
	} {
		i := ingress("shop", "i", 1)
		i.Spec.DefaultBackend = &c.backend
		o := w.compile(i)
		b := o.Table.Find("a.test", "/")
		if (b == nil) != (c.scheme == "") || b != nil && (b.Scheme != c.scheme || strings.Join(b.Endpoints, " ") != c.want) {
			t.Errorf("%+v: %+v", c.backend, b)
		}
		if got := strings.TrimPrefix(strings.Join(o.reasons(), ","), "shop/i "); got != c.reason {
			t.Errorf("%+v: %q, want %q", c.backend, got, c.reason)
		}
		if c.backend.Service != nil && !o.Table.Uses("shop", c.backend.Service.Name) || o.Table.Uses("shop", "others") || o.Table.Uses("other", "many") {
			t.Errorf("%+v: which services matter", c.backend)
		}
	}
	b := &Backend{Endpoints: []string{"a", "b", "c"}}
	seen := map[string]int{}
	for range 30 {
		two := b.Pick(2)
		if len(two) != 2 || two[0] == two[1] {
			t.Fatalf("%v", two)
		}
		seen[two[0]]++
	}
	if seen["a"] != 10 || seen["b"] != 10 || seen["c"] != 10 || len(b.Pick(5)) != 3 || (&Backend{}).Pick(3) != nil {
		t.Errorf("turns: %v", seen)
	}
}

func named(service, port string) networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Name: port}}}
}

func TestCertificates(t *testing.T) {
	i := ingress("shop", "i", 1, "a.test Prefix / a", "*.b.test Prefix / b", "- Prefix / c")
	i.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "all"}, {Hosts: []string{"*.b.test", "x.b.test"}, SecretName: "b"}, {Hosts: []string{"d.test"}}}
	o := (&world{}).compile(i)
	for host, want := range map[string]string{"a.test": "all", "y.b.test": "all", "x.b.test": "b", "d.test": "", "b.test": "", "z.y.b.test": "", "": ""} {
		if s, _ := o.Table.Secret(host); s.Name != want {
			t.Errorf("%s has the certificate %q, want %q", host, s.Name, want)
		}
	}
	if len(o.Certificates) != 2 || !slices.Equal(o.Certificates[0].Hosts, []string{"a.test", "*.b.test"}) || !slices.Equal(o.Certificates[1].Hosts, []string{"x.b.test"}) {
		t.Errorf("%+v", o.Certificates)
	}
}

// TestCertificateOfAll: a host that nobody has is served with the certificate of the listener
// for all hosts, while one namespace alone has such a listener. Hosts that others have are not.
func TestCertificateOfAll(t *testing.T) {
	of := func(namespace string) *Listener {
		return &Listener{Namespace: namespace, Port: 443, Secrets: []SecretName{{namespace, "all"}}}
	}
	one := (&world{}).compile(ingress("bank", "i", 1, "bank.test Prefix / a")).Table
	one.Attach([]*Listener{of("shop"), {Namespace: "shop", Port: 443, Hostname: "a.test", Secrets: []SecretName{{"shop", "a"}}}})
	for host, want := range map[string]string{"unknown.test": "all", "": "all", "a.test": "a", "bank.test": ""} {
		got := ""
		if s, _ := one.Certificates(443, host); len(s) > 0 {
			got = s[0].Name
		}
		if got != want {
			t.Errorf("%s has the certificate %q, want %q", host, got, want)
		}
	}
	_, unknown := one.Certificates(443, "unknown.test")
	if _, named := one.Certificates(443, "a.test"); unknown == named {
		t.Error("a connection for one listener may ask for hosts of another one")
	}
	two := Compile(Input{}).Table
	two.Attach([]*Listener{of("shop"), of("bank")})
	if s, _ := two.Certificates(443, "unknown.test"); s != nil {
		t.Errorf("a host that nobody has is served with %v of one of two namespaces", s)
	}
}

// TestPatternWork: the patterns of one request read so much text together. A request that
// needs more leads nowhere, neither to a rule after them nor to an Ingress (hostile).
func TestPatternWork(t *testing.T) {
	build := func(patterns int) *Table {
		l := &Listener{Namespace: "shop", Port: 80, Hostname: "*.test"}
		for i := range patterns {
			l.Add("*."+strings.Repeat("a.", i%16)+"test", &Rule{Pattern: regexp.MustCompile(`\A(?:/no+)\z`), Action: &Action{}})
		}
		l.Add("*.test", &Rule{Path: "/", Action: &Action{}})
		table := Compile(Input{}).Table
		table.Attach([]*Listener{l})
		return table
	}
	deepest := strings.Repeat("a.", 16) + "test"
	for _, c := range []struct {
		patterns, path int
		leads          bool
	}{
		{maxPatternWork / leastPatternWork, 10, true}, {maxPatternWork/leastPatternWork + 1, 10, false},
		{maxPatternWork / maxPatternInput, maxPatternInput, true}, {maxPatternWork/maxPatternInput + 1, maxPatternInput, false},
		{1000, maxPatternInput + 1, true}, // none is tried
	} {
		q := &Request{Port: 80, Host: deepest, Path: "/" + strings.Repeat("n", c.path-1), Method: "GET"}
		if got := build(c.patterns).Route(q) != nil; got != c.leads {
			t.Errorf("%d patterns at %d bytes: it leads somewhere: %t", c.patterns, c.path, got)
		}
		if q.work > maxPatternWork && !q.spent {
			t.Errorf("%d patterns at %d bytes: %d bytes were read", c.patterns, c.path, q.work)
		}
	}
}
