package packets

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// seedVariable is the environment variable with the seed of another table; the default is
// the same in each run.
const seedVariable = "PACKETS_SEED"

// Of a table, each service is asked some questions.
const (
	drawnServices  = 40
	drawnQuestions = 12
)

// protocols of the one service of a test: it has a port of each.
var protocols = []string{"TCP", "UDP", "SCTP"}

// drawn is a service with endpoints a and b, as kube-proxy would see it.
type drawn struct {
	kind               string // ClusterIP, NodePort or LoadBalancer; each with an external IP
	external, internal string // traffic policies
	affinity           bool
	ranges             string // load balancer source range; "": none
	zone               string // of the node
	a, b               drawnEndpoint
}

// drawnEndpoint is on the node where it is a, and on another where it is b.
type drawnEndpoint struct{ state, hint string }

// Endpoints' states: all that readiness and termination can be together.
const (
	absent   = "absent"
	ready    = "ready"
	unready  = "unready"
	ending   = "ending" // and still serving
	finished = "finished"
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func draw(r *rand.Rand) drawn {
	endpoint := func() drawnEndpoint {
		return drawnEndpoint{pick(r, ready, ready, ready, ending, unready, finished, absent), pick(r, "", "here", "far")}
	}
	d := drawn{
		kind: pick(r, "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"), external: "Cluster", internal: pick(r, "Cluster", "Cluster", "Local"),
		affinity: r.IntN(4) == 0, zone: pick(r, "", "here", "here"), a: endpoint(), b: endpoint(),
	}
	if d.kind != "ClusterIP" {
		d.external = pick(r, "Cluster", "Local")
	}
	if d.kind == "LoadBalancer" {
		d.ranges = pick(r, "", "", "10.244.3.0/24", "198.51.100.0/24")
	}
	return d
}

// endpoints are the names of those that new connections go to, of all or of the node's own.
// It is written from Kubernetes' documentation, so that it shares no mistake with a proxy.
func (d *drawn) endpoints(own bool) []string {
	all := map[string]drawnEndpoint{"a": d.a}
	if !own {
		all["b"] = d.b
	}
	in := func(keep func(drawnEndpoint) bool) []string {
		var names []string
		for name, e := range all {
			if keep(e) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	names := in(func(e drawnEndpoint) bool { return e.state == ready })
	if len(names) == 0 { // what ends and still serves is better than nothing
		return in(func(e drawnEndpoint) bool { return e.state == ending })
	}
	hinted := in(func(e drawnEndpoint) bool { return e.state == ready && e.hint != "" })
	here := in(func(e drawnEndpoint) bool { return e.state == ready && e.hint == d.zone })
	// Hints count for all endpoints or for none, and not for those of the node alone.
	if !own && d.zone != "" && len(hinted) == len(names) && len(here) > 0 {
		return here
	}
	return names
}

// Ways to the service.
const (
	byCluster  = "cluster IP"
	byNodePort = "node port"
	byExternal = "external IP"
	byBalancer = "load balancer IP"
)

// drawnQuestion is who asks by which way and protocol.
type drawnQuestion struct {
	from, by, protocol string
	ipv6               bool
}

// sources are the addresses of those that ask.
var sources = map[string]string{"a": "10.244.1.2", "b": "10.244.2.2", "pod": "10.244.3.2", "outside": "198.51.100.2", "node": "198.51.100.1"}

func (d *drawn) drawQuestion(r *rand.Rand, under Proxy) drawnQuestion {
	from := pick(r, "a", "b", "pod", "outside", "node")
	ways := []string{byExternal}
	if from != "b" { // whose own node has a proxy for cluster IPs
		ways = append(ways, byCluster)
	}
	if d.kind != "ClusterIP" {
		ways = append(ways, byNodePort)
	}
	if d.kind == "LoadBalancer" {
		ways = append(ways, byBalancer)
	}
	return drawnQuestion{from, pick(r, ways...), pick(r, under.protocols()...), under.IPv6 && r.IntN(2) == 0}
}

// address is what is asked.
func (q drawnQuestion) address() string {
	host, port := clusterIP, 80
	switch q.by {
	case byExternal:
		host = externalIP
	case byBalancer:
		host = balancerIP
	case byNodePort:
		port = nodePort
		// The node's address on the link of the one that asks.
		host = sources[q.from][:strings.LastIndex(sources[q.from], ".")+1] + "1"
	}
	if q.ipv6 {
		host = inIPv6.Replace(host)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(host), uint16(port)).String()
}

// answer says which endpoints may answer a question, and whether the endpoint sees the address
// of the one that asks: yes, no, or "" where that is not promised.
func (d *drawn) answer(q drawnQuestion) (who []string, sees string) {
	if q.by == byCluster {
		who, sees = d.endpoints(d.internal == "Local"), "yes"
		if q.from == "outside" {
			sees = "no"
		}
	} else {
		// Pods and the node itself are not outside: the external policy does not hold them up.
		own := d.external == "Local" && q.from == "outside"
		who, sees = d.endpoints(own), "no"
		if d.external == "Local" {
			sees = "yes"
		}
	}
	if q.by == byBalancer && d.ranges != "" && !netip.MustParsePrefix(d.ranges).Contains(netip.MustParseAddr(sources[q.from])) {
		return nil, ""
	}
	if q.from == "node" || slices.Contains(who, q.from) {
		sees = "" // the node has many addresses, and one that asks itself sees the node's
	}
	return who, sees
}

// diff is the service as a proxy gets it.
func (d *drawn) diff(generation uint64, under Proxy) *proxy.Diff {
	two := func(list ...string) []string {
		if under.IPv6 {
			return both(list)
		}
		return list
	}
	name := &proxy.ServiceName{Namespace: "default", Name: "web"}
	s := &proxy.Service{
		Name: name, Type: d.kind, ClusterIps: two(clusterIP), ExternalIps: two(externalIP), SessionAffinity: "None",
		ExternalTrafficPolicy: d.external, InternalTrafficPolicy: d.internal,
	}
	if d.affinity {
		s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "ClientIP", 10800
	}
	if d.kind == "LoadBalancer" {
		s.LoadBalancerIps = two(balancerIP)
		if d.external == "Local" {
			s.HealthCheckNodePort = healthPort
		}
	}
	if d.ranges != "" {
		s.LoadBalancerSourceRanges = two(d.ranges)
	}
	var ports []*proxy.PortEndpoints
	for _, protocol := range under.protocols() {
		port := &proxy.ServicePort{Name: strings.ToLower(protocol), Protocol: protocol, Port: 80}
		if d.kind != "ClusterIP" {
			port.NodePort = nodePort
		}
		s.Ports = append(s.Ports, port)
		var list []*proxy.Endpoint
		for of, e := range map[string]drawnEndpoint{"a": d.a, "b": d.b} {
			if e.state == absent {
				continue
			}
			for _, ip := range two(sources[of]) {
				one := &proxy.Endpoint{
					Ip: ip, Port: 8080, Local: of == "a",
					Ready: e.state == ready, Serving: e.state == ready || e.state == ending, Terminating: e.state == ending || e.state == finished,
				}
				if e.hint != "" {
					one.ZoneHints = []string{e.hint}
				}
				list = append(list, one)
			}
		}
		ports = append(ports, &proxy.PortEndpoints{PortName: port.Name, Protocol: protocol, Endpoints: list})
	}
	return &proxy.Diff{Generation: generation, Reset_: generation == 1, Node: &proxy.Node{Zone: d.zone}, Changes: []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: s}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{Name: name, Ports: ports}}},
	}}
}

// RunDrawn sends packets to services that are drawn, from everywhere, by each way, in all
// protocols and families of the proxy: who answers is as Kubernetes documents it.
func RunDrawn(t *testing.T, under Proxy) {
	n, p := begin(t, under)
	if n == nil {
		return
	}
	seed := uint64(1)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range drawnServices {
		d := draw(r)
		if err := p.Apply(t.Context(), d.diff(uint64(i+1), under)); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		for range drawnQuestions {
			q := d.drawQuestion(r, under)
			who, sees := d.answer(q)
			if under.Copies {
				sees = ""
			}
			if fault := n.asked(t, q, who, sees, d.affinity); fault != "" {
				t.Errorf("%+v: %+v: %s, want %q", d, q, fault, who)
			}
		}
	}
}

// RunUDPFlow asks from one port all the time, as a resolver does: the kernel knows the flow, and
// leads it as before until the proxy has it forgotten.
func RunUDPFlow(t *testing.T, under Proxy) {
	n, p := begin(t, under)
	if n == nil {
		return
	}
	for i, step := range []struct {
		external string
		a, b     string
		want     string
	}{
		{"Cluster", ready, absent, "a"}, {"Local", ready, absent, "a"}, {"Local", absent, ready, "b"}, {"Cluster", absent, ready, "b"},
		{"Cluster", ready, absent, "a"}, {"Local", absent, ready, "b"},
	} {
		d := drawn{kind: "NodePort", external: step.external, internal: "Cluster", a: drawnEndpoint{state: step.a}, b: drawnEndpoint{state: step.b}}
		if err := p.Apply(t.Context(), d.diff(uint64(i+1), under)); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		for j, by := range []string{byCluster, byExternal, byNodePort} {
			q := drawnQuestion{from: "pod", by: by, protocol: "UDP"}
			o := order{Protocol: "UDP", Get: q.address(), Port: 40000 + j, Brief: true}
			var a answer
			var who string
			for deadline := time.Now().Add(longer); ; {
				a = n.order(t, q.from, o)
				if who, _, _ = strings.Cut(a.Text, " "); who == step.want || time.Now().After(deadline) {
					break
				}
				if under.Copies { // its clients keep their endpoint until they are silent
					time.Sleep(2 * brief)
				}
			}
			if who != step.want {
				t.Errorf("step %d, by %s: answered by %q (%s), want %q", i, by, who, a.Error, step.want)
			}
		}
	}
}

// asked asks a question often enough to see all that answer, and says what is wrong; "": nothing.
func (n *network) asked(t *testing.T, q drawnQuestion, who []string, sees string, sticky bool) string {
	t.Helper()
	tries := 4
	if len(who) > 1 && !sticky {
		tries = 64 // a choice at random between two fails to show both once in 2^63
	}
	o := order{Protocol: q.protocol, Get: q.address(), Brief: len(who) == 0}
	var seen []string
	for range tries {
		a := n.order(t, q.from, o)
		if a.Error != "" {
			if len(who) == 0 {
				return ""
			}
			return a.Error
		}
		name, client, _ := strings.Cut(a.Text, " ")
		if !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
		source := sources[q.from]
		if q.ipv6 {
			source = inIPv6.Replace(source)
		}
		if sees != "" && (client == source) != (sees == "yes") {
			return fmt.Sprintf("%s sees the client %s (its own address: %s)", name, client, sees)
		}
		if !sticky && len(seen) == len(who) && len(who) > 1 {
			break
		}
	}
	slices.Sort(seen)
	switch {
	case sticky && len(seen) == 1 && slices.Contains(who, seen[0]):
	case !slices.Equal(seen, who):
		return fmt.Sprintf("answered by %q", seen)
	}
	return ""
}
