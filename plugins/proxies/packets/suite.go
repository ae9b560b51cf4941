package packets

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// addresses of the one service of a test.
const (
	clusterIP  = "10.96.0.10"
	externalIP = "203.0.113.7"
	balancerIP = "203.0.113.8"
	nodePort   = 30080
	healthPort = 30081
)

// Proxy is a proxy under test, with what it cannot do.
type Proxy struct {
	New func() proxy.Proxy
	// Copies: it answers clients itself, so that pods never see their addresses.
	Copies bool
	// IPv6: it serves that family, too; everything is asked in both.
	IPv6 bool
	// NoSCTP: it does not serve that protocol.
	NoSCTP bool
}

// inIPv6 writes addresses of the tests as those of the same hosts and services in IPv6;
// asURL the same, in brackets where ports follow.
var (
	inIPv6 = strings.NewReplacer(addressPairs("%s")...)
	asURL  = strings.NewReplacer(addressPairs("[%s]")...)
)

func addressPairs(form string) []string {
	var out []string
	for _, pair := range [][2]string{ // ranges come before the addresses that begin as they do
		{"10.244.3.0/24", "fd00:244:3::/64"}, {"198.51.100.0/24", "2001:db8:100::/64"},
		{"10.244.0.0/16", "fd00:244::/32"}, {"10.96.0.0/16", "fd00:96::/112"},
	} {
		out = append(out, pair[0], pair[1])
	}
	for _, pair := range [][2]string{
		{"198.51.100.1", "2001:db8:100::1"}, {"198.51.100.2", "2001:db8:100::2"},
		{"10.244.1.1", "fd00:244:1::1"}, {"10.244.1.2", "fd00:244:1::2"}, {"10.244.2.1", "fd00:244:2::1"}, {"10.244.2.2", "fd00:244:2::2"},
		{"10.244.3.1", "fd00:244:3::1"}, {"10.244.3.2", "fd00:244:3::2"},
		{clusterIP, "fd00:96::10"}, {externalIP, "2001:db8:203::7"}, {balancerIP, "2001:db8:203::8"},
	} {
		out = append(out, pair[0], fmt.Sprintf(form, pair[1]))
	}
	return out
}

// both adds to addresses the same in IPv6.
func both(list []string) []string {
	out := slices.Clone(list)
	for _, text := range list {
		out = append(out, inIPv6.Replace(text))
	}
	return out
}

// question asks an address of the service and names who may answer, all of
// which endpoints must answer in turn; none: the packet gets no answer.
type question struct {
	from, to string
	want     string // "a", "b", "a b", "", or a text
}

// test is one service with its endpoints. Pod a is on this node, b is not.
type test struct {
	name      string
	service   func(*proxy.Service)
	a, b      string // ready, ending, none; with zone=Z
	zone      string
	questions []question
	client    string // whom a must see when asked from outside, where clients are not copied
	ipv4      bool   // what it says is true of IPv4 alone
}

var tests = []test{
	{name: "cluster policy", a: "ready", b: "ready", questions: []question{
		{"pod", clusterIP + ":80", "a b"}, {"node", clusterIP + ":80", "a b"}, {"a", clusterIP + ":80", "a b"},
		{"outside", clusterIP + ":80", "a b"},
		{"outside", fmt.Sprintf("198.51.100.1:%d", nodePort), "a b"}, {"pod", fmt.Sprintf("10.244.3.1:%d", nodePort), "a b"},
		{"outside", externalIP + ":80", "a b"}, {"pod", externalIP + ":80", "a b"}, {"node", externalIP + ":80", "a b"},
		{"outside", balancerIP + ":80", "a b"}, {"pod", balancerIP + ":80", "a b"},
	}},
	{name: "from outside the cluster by the cluster IP is masqueraded", a: "ready", b: "none", client: "10.244.1.1", questions: []question{
		{"outside", clusterIP + ":80", "a"},
	}},
	{name: "external policy Local", service: externalLocal, a: "ready", b: "ready", client: "198.51.100.2", questions: []question{
		{"outside", fmt.Sprintf("198.51.100.1:%d", nodePort), "a"}, {"outside", externalIP + ":80", "a"}, {"outside", balancerIP + ":80", "a"},
		{"pod", balancerIP + ":80", "a b"}, {"node", balancerIP + ":80", "a b"}, {"pod", clusterIP + ":80", "a b"},
		{"outside", fmt.Sprintf("198.51.100.1:%d", healthPort), "200 weight 1"},
	}},
	{name: "external policy Local, this node's endpoint ends", service: externalLocal, a: "ending", b: "ready", questions: []question{
		{"outside", fmt.Sprintf("198.51.100.1:%d", nodePort), "a"}, {"outside", balancerIP + ":80", "a"}, {"pod", clusterIP + ":80", "b"},
		{"outside", fmt.Sprintf("198.51.100.1:%d", healthPort), "503 weight 0"},
	}},
	{name: "external policy Local, none here", service: externalLocal, a: "none", b: "ready", questions: []question{
		{"outside", fmt.Sprintf("198.51.100.1:%d", nodePort), ""}, {"outside", externalIP + ":80", ""},
		{"pod", balancerIP + ":80", "b"}, {"node", balancerIP + ":80", "b"},
		{"outside", fmt.Sprintf("198.51.100.1:%d", healthPort), "503 weight 0"},
	}},
	{name: "internal policy Local", service: internalLocal, a: "ready", b: "ready", questions: []question{
		{"pod", clusterIP + ":80", "a"}, {"node", clusterIP + ":80", "a"}, {"outside", externalIP + ":80", "a b"},
	}},
	{name: "internal policy Local, this node's endpoint ends", service: internalLocal, a: "ending", b: "ready", questions: []question{
		{"pod", clusterIP + ":80", "a"}, {"outside", externalIP + ":80", "b"},
	}},
	{name: "internal policy Local, none here", service: internalLocal, a: "none", b: "ready", questions: []question{
		{"pod", clusterIP + ":80", ""}, {"outside", externalIP + ":80", "b"},
	}},
	{name: "all end", a: "ending", b: "ending", questions: []question{{"pod", clusterIP + ":80", "a b"}}},
	{name: "nobody", a: "none", b: "none", questions: []question{{"pod", clusterIP + ":80", ""}, {"outside", balancerIP + ":80", ""}}},
	{name: "hints for this zone", a: "ready zone=far", b: "ready zone=here", zone: "here", questions: []question{
		{"pod", clusterIP + ":80", "b"}, {"outside", balancerIP + ":80", "b"},
	}},
	{name: "hints for other zones", a: "ready zone=far", b: "ready zone=farther", zone: "here", questions: []question{{"pod", clusterIP + ":80", "a b"}}},
	{name: "source ranges leave the client out", service: func(s *proxy.Service) { s.LoadBalancerSourceRanges = []string{"10.244.3.0/24"} }, a: "ready", b: "ready", questions: []question{
		{"outside", balancerIP + ":80", ""}, {"pod", balancerIP + ":80", "a b"}, {"a", balancerIP + ":80", ""},
		{"outside", fmt.Sprintf("198.51.100.1:%d", nodePort), "a b"}, {"outside", externalIP + ":80", "a b"},
	}},
	{name: "source ranges let the client pass", service: func(s *proxy.Service) { s.LoadBalancerSourceRanges = []string{" 198.51.100.0/24 "} }, a: "ready", b: "ready", questions: []question{
		{"outside", balancerIP + ":80", "a b"}, {"pod", balancerIP + ":80", ""},
	}},
	{name: "source ranges of another family let nobody pass", service: func(s *proxy.Service) { s.LoadBalancerSourceRanges = []string{"::/0"} }, a: "ready", b: "ready", ipv4: true, questions: []question{
		{"outside", balancerIP + ":80", ""}, {"pod", balancerIP + ":80", ""},
	}},
}

func externalLocal(s *proxy.Service) {
	s.ExternalTrafficPolicy, s.HealthCheckNodePort = "Local", healthPort
}
func internalLocal(s *proxy.Service) { s.InternalTrafficPolicy = "Local" }

// protocols of the services that the proxy serves.
func (p Proxy) protocols() []string {
	return slices.DeleteFunc(slices.Clone(protocols), func(protocol string) bool { return p.NoSCTP && protocol == "SCTP" })
}

// begin makes the network and starts a proxy, which ends with the test. Both are nil in a
// process that is not the node.
func begin(t *testing.T, under Proxy) (*network, proxy.Proxy) {
	t.Helper()
	if !Inside(t) {
		return nil, nil
	}
	if err := under.New().Probe(t.Context(), nil); err != nil {
		t.Skipf("this machine cannot run the proxy: %v", err)
	}
	n := lay(t)
	p := under.New()
	options := proxy.Options{
		NodeName: "n", NodeIPs: []string{"198.51.100.1"}, ClusterCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
		StateDirectory: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Config: []byte(`{"healthzBindAddress":""}`),
	}
	if under.IPv6 {
		n.lay6(t)
		options.NodeIPs, options.ClusterCIDRs, options.ServiceCIDRs = both(options.NodeIPs), both(options.ClusterCIDRs), both(options.ServiceCIDRs)
	}
	if err := p.Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
	return n, p
}

// Run sends every test's packets through the proxy.
func Run(t *testing.T, under Proxy) {
	n, p := begin(t, under)
	if n == nil {
		return
	}
	for i, tc := range tests {
		// Subtests would be processes of their own.
		if err := p.Apply(t.Context(), tc.diff(uint64(i+1), under.IPv6)); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		n.check(t, tc, under)
		if under.IPv6 && !tc.ipv4 {
			n.check(t, tc.inIPv6(), under)
		}
	}
}

// inIPv6 is the same test with the addresses of that family.
func (tc test) inIPv6() test {
	tc.name += ", IPv6"
	tc.client = inIPv6.Replace(tc.client)
	tc.questions = slices.Clone(tc.questions)
	for i := range tc.questions {
		tc.questions[i].to = asURL.Replace(tc.questions[i].to)
	}
	return tc
}

// check asks a test's questions.
func (n *network) check(t *testing.T, tc test, under Proxy) {
	t.Helper()
	for _, q := range tc.questions {
		if got := n.answers(t, q); got != q.want {
			t.Errorf("%s: %s asks %s: answered by %q, want %q", tc.name, q.from, q.to, got, q.want)
		}
	}
	if tc.client != "" && !under.Copies {
		a := n.ask(t, "outside", tc.questions[0].to)
		if _, seen, _ := strings.Cut(a.Text, " "); seen != tc.client {
			t.Errorf("%s: the pod sees %q (%s), want %s", tc.name, seen, a.Error, tc.client)
		}
	}
}

// answers are the endpoints that answer: none after one try, all within many.
func (n *network) answers(t *testing.T, q question) string {
	t.Helper()
	tries := 64 // a choice at random between two fails to show both once in 2^63
	if q.want == "" || !strings.Contains(q.want, " ") {
		tries = 4
	}
	var seen []string
	for range tries {
		a := n.ask(t, q.from, q.to)
		if a.Error != "" {
			if q.want != "" {
				return a.Error
			}
			return ""
		}
		if strings.Contains(a.Text, "weight") {
			return a.Text
		}
		if who, _, _ := strings.Cut(a.Text, " "); !slices.Contains(seen, who) {
			seen = append(seen, who)
		}
		slices.Sort(seen)
		if got := strings.Join(seen, " "); got == q.want && len(seen) == 2 {
			return got
		}
	}
	return strings.Join(seen, " ")
}

func (tc *test) diff(generation uint64, withIPv6 bool) *proxy.Diff {
	name := &proxy.ServiceName{Namespace: "default", Name: "web"}
	service := &proxy.Service{
		Name: name, Type: "LoadBalancer", ClusterIps: []string{clusterIP}, ExternalIps: []string{externalIP}, LoadBalancerIps: []string{balancerIP},
		SessionAffinity: "None", Ports: []*proxy.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: nodePort}},
	}
	if tc.service != nil {
		tc.service(service)
	}
	var list []*proxy.Endpoint
	for ip, text := range map[string]string{"10.244.1.2": tc.a, "10.244.2.2": tc.b} {
		state, zone, _ := strings.Cut(text, " zone=")
		if state == "none" {
			continue
		}
		e := &proxy.Endpoint{Ip: ip, Port: 8080, Ready: state == "ready", Serving: true, Terminating: state == "ending", Local: ip == "10.244.1.2"}
		if zone != "" {
			e.ZoneHints = []string{zone}
		}
		list = append(list, e)
		if withIPv6 {
			list = append(list, &proxy.Endpoint{
				Ip: inIPv6.Replace(ip), Port: e.Port, Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Local: e.Local, ZoneHints: e.ZoneHints,
			})
		}
	}
	if withIPv6 {
		service.ClusterIps, service.ExternalIps, service.LoadBalancerIps = both(service.ClusterIps), both(service.ExternalIps), both(service.LoadBalancerIps)
		for _, r := range slices.Clone(service.LoadBalancerSourceRanges) {
			if strings.Contains(r, ".") { // those of IPv6 are there
				service.LoadBalancerSourceRanges = append(service.LoadBalancerSourceRanges, inIPv6.Replace(r))
			}
		}
	}
	return &proxy.Diff{Generation: generation, Reset_: generation == 1, Node: &proxy.Node{Zone: tc.zone}, Changes: []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: service}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
			Name: name, Ports: []*proxy.PortEndpoints{{PortName: "http", Protocol: "TCP", Endpoints: list}},
		}}},
	}}
}
