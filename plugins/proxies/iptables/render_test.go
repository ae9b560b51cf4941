package iptables

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func servicePort(change func(*serviceport.Port)) *serviceport.Port {
	p := &serviceport.Port{
		ID:        serviceport.ID{Name: proxy.Name{Namespace: "default", Name: "web"}, Port: "http", Protocol: "TCP"},
		ClusterIP: "10.96.0.10", Number: 80,
		Cluster: []serviceport.Endpoint{{IP: "10.244.0.2", Port: 8080, Local: true}, {IP: "10.244.0.3", Port: 8080}, {IP: "10.244.0.4", Port: 8080}},
		Local:   []serviceport.Endpoint{{IP: "10.244.0.2", Port: 8080, Local: true}},
	}
	if change != nil {
		change(p)
	}
	return p
}

// TestRules compares what is loaded for one service with golden files: the
// layout of PIT-13, PIT-17 to PIT-36 and PIT-41.
func TestRules(t *testing.T) {
	tests := []struct {
		name          string
		masqueradeAll bool
		change        func(*serviceport.Port)
	}{
		{name: "cluster-ip"},
		{name: "masquerade-all", masqueradeAll: true},
		{name: "no-endpoints", change: func(p *serviceport.Port) { p.Cluster, p.Local = nil, nil }},
		{name: "affinity", change: func(p *serviceport.Port) { p.Sticky = 180 * time.Minute }},
		{name: "node-port", change: func(p *serviceport.Port) { p.NodePort = 30080 }},
		{name: "outside-no-endpoints", change: func(p *serviceport.Port) {
			p.NodePort, p.ExternalIPs, p.LoadBalancerIPs, p.Cluster, p.Local = 30080, []string{"192.0.2.1"}, []string{"192.0.2.2"}, nil, nil
		}},
		{name: "external-local-elsewhere", change: func(p *serviceport.Port) {
			p.NodePort, p.ExternalLocal, p.Cluster, p.Local = 30080, true, p.Cluster[1:], nil
		}},
		{name: "external-ip", change: func(p *serviceport.Port) { p.ExternalIPs = []string{"192.0.2.1"} }},
		{name: "load-balancer", change: func(p *serviceport.Port) {
			p.LoadBalancerIPs, p.Restricted, p.SourceRanges = []string{"192.0.2.2"}, true, []string{"198.51.100.0/24", "192.0.2.0/24"}
		}},
		{name: "external-local", change: func(p *serviceport.Port) { p.NodePort, p.ExternalLocal = 30080, true }},
		{name: "internal-local-elsewhere", change: func(p *serviceport.Port) { p.InternalLocal, p.Cluster, p.Local = true, p.Cluster[1:], nil }},
		{name: "internal-local", change: func(p *serviceport.Port) { p.InternalLocal, p.NodePort = true, 30080 }},
		{name: "local-ending", change: func(p *serviceport.Port) {
			p.NodePort, p.ExternalLocal, p.HealthCheckPort, p.Cluster = 30080, true, 30081, p.Cluster[1:]
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := servicePort(tc.change)
			pods := []string{"10.244.0.0/16"}
			r := renderer{masqueradeAll: tc.masqueradeAll, clusterCIDRs: pods, nodeIPs: []string{"192.0.2.10"}}
			ports := map[serviceport.ID]*serviceport.Port{p.ID: p}
			nat, filter := desired(ports, map[serviceport.ID]rules{p.ID: r.port(p)}, base{"0x4000/0x4000", true, true, pods})
			got := string(restoreInput(table{}, table{}, nat, filter))
			file := filepath.Join("testdata", tc.name+".rules")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s:\n%s", file, got)
			}
		})
	}
}

// PIT-42: every affinity rule of a chain comes before every balancing rule.
func TestAffinityComesFirst(t *testing.T) {
	p := servicePort(func(p *serviceport.Port) { p.Sticky = time.Hour })
	lines := (&renderer{}).port(p).chains[serviceChain(p.ID)]
	if len(lines) != 6 {
		t.Fatalf("%d rules: %v", len(lines), lines)
	}
	for i, l := range lines {
		if strings.Contains(l, "--rcheck") != (i < 3) {
			t.Errorf("rule %d: %s", i, l)
		}
	}
}

// ODD-23: the choice is even, 1/(n − i).
func TestProbabilities(t *testing.T) {
	lines := (&renderer{}).port(servicePort(nil)).chains[serviceChain(servicePort(nil).ID)]
	for i, want := range []string{"0.3333333333", "0.5000000000", ""} {
		if want != "" && !strings.Contains(lines[i], "--probability "+want) || want == "" && strings.Contains(lines[i], "probability") {
			t.Errorf("rule %d: %s", i, lines[i])
		}
	}
}

// A change of one service's endpoints loads that service's chains and nothing else.
func TestOnlyChangesAreLoaded(t *testing.T) {
	r := renderer{}
	one := servicePort(nil)
	other := servicePort(func(p *serviceport.Port) { p.ID.Name.Name, p.ClusterIP = "other", "10.96.0.11" })
	tables := func(list ...*serviceport.Port) (table, table) {
		ports, rendered := map[serviceport.ID]*serviceport.Port{}, map[serviceport.ID]rules{}
		for _, p := range list {
			ports[p.ID], rendered[p.ID] = p, r.port(p)
		}
		return desired(ports, rendered, base{mark: "0x4000/0x4000"})
	}
	nat, filter := tables(one, other)
	if input := restoreInput(nat, filter, nat, filter); input != nil {
		t.Errorf("nothing changed, loads:\n%s", input)
	}
	fewer := servicePort(func(p *serviceport.Port) { p.Cluster = p.Cluster[:2] })
	nat2, filter2 := tables(fewer, other)
	input := string(restoreInput(nat, filter, nat2, filter2))
	gone := endpointChain(one.ID, one.Cluster[2])
	for _, want := range []string{":" + serviceChain(one.ID), ":" + gone, "-X " + gone} {
		if !strings.Contains(input, want) {
			t.Errorf("lacks %s:\n%s", want, input)
		}
	}
	for _, not := range []string{chainServices, serviceChain(other.ID), endpointChain(one.ID, one.Cluster[0])} {
		if strings.Contains(input, ":"+not+" ") {
			t.Errorf("loads %s too:\n%s", not, input)
		}
	}
}

// PIT-15, PIT-27: 16 characters, distinct for each protocol and endpoint.
func TestChainNames(t *testing.T) {
	p := servicePort(nil)
	udp := servicePort(func(p *serviceport.Port) { p.Protocol = "UDP" })
	names := map[string]bool{
		serviceChain(p.ID): true, serviceChain(udp.ID): true, localChain(p.ID): true, externalChain(p.ID): true, sourcesChain(p.ID): true,
		endpointChain(p.ID, p.Cluster[0]): true, endpointChain(p.ID, p.Cluster[1]): true,
	}
	if len(names) != 7 {
		t.Errorf("names clash: %v", names)
	}
	for n := range names {
		if len(n) > 28 {
			t.Errorf("%s is longer than iptables allows", n)
		}
	}
}

func TestParseConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"masqueradeBit":32}`:     "want 0 to 31",
		`{"resyncPeriod":"never"}`: "want a duration",
		`{"masquerade":true}`:      "unknown field",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := parseConfig(nil)
	if err != nil || c.mark() != "0x4000/0x4000" {
		t.Errorf("mark %s, %v", c.mark(), err)
	}
}
