package nftables

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

func servicePort(change func(*serviceport.Port)) *serviceport.Port {
	p := &serviceport.Port{
		ID:        serviceport.ID{Name: proxy.Name{Namespace: "default", Name: "web"}, Port: "http", Protocol: "TCP"},
		ClusterIP: "10.96.0.10", Number: 80,
		Cluster: []serviceport.Endpoint{{IP: "10.244.0.2", Port: 8080, Local: true}, {IP: "10.244.0.3", Port: 8080}},
		Local:   []serviceport.Endpoint{{IP: "10.244.0.2", Port: 8080, Local: true}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func chainTexts(p plan) []string {
	var out []string
	for _, c := range p.chains {
		text := c.name
		switch c.kind {
		case stick:
			text += " remembers in " + c.affinity
		case outward:
			text += " → " + c.to
			if c.policyLocal {
				text += ", outside → " + c.toLocal
			}
		case guard:
			text += " allows " + c.allowed
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// TestPlan: what one port wants (requirements PIT-17 to PIT-34, whose rules are elements
// here; LBR-6).
func TestPlan(t *testing.T) {
	inside := []string{
		"cluster-ips 10.96.0.10", "endpoints 10.96.0.10 tcp 80 #0 → 10.244.0.2 8080", "endpoints 10.96.0.10 tcp 80 #1 → 10.244.0.3 8080",
		"hairpin-connections 10.244.0.2 10.244.0.2 tcp 8080", "service-ips 10.96.0.10 tcp 80 → service-cluster-2",
	}
	base := baseName(servicePort(nil).ID)
	for name, tc := range map[string]struct {
		change   func(*serviceport.Port)
		nodeIPs  string
		elements []string // besides inside, but for those that follow a minus
		chains   []string
	}{
		"cluster IP": {chains: []string{"service-cluster-2"}},
		"no endpoints": {
			change: func(p *serviceport.Port) {
				p.Cluster, p.Local, p.NodePort, p.ExternalIPs = nil, nil, 30080, []string{"192.0.2.1"}
			},
			elements: []string{"-", "cluster-ips 10.96.0.10", "no-endpoint-nodeports tcp 30080 → reject-chain", "no-endpoint-services 10.96.0.10 tcp 80 → reject-chain", "no-endpoint-services 192.0.2.1 tcp 80 → reject-chain"},
		},
		"node port": {
			change:   func(p *serviceport.Port) { p.NodePort = 30080 },
			elements: []string{"nodeport-services tcp 30080 → 10.96.0.10 tcp 80", "service-nodeports tcp 30080 → outside-nodeport-cluster-2"},
			chains:   []string{"nodeport-cluster-2", "outside-nodeport-cluster-2 → nodeport-cluster-2", "service-cluster-2"},
		},
		"external policy Local": {
			change:   func(p *serviceport.Port) { p.ExternalIPs, p.ExternalLocal = []string{"192.0.2.1"}, true },
			elements: []string{"external-services 192.0.2.1 tcp 80 → 10.96.0.10 tcp 80", "hairpin-connections 10.244.0.3 10.244.0.3 tcp 8080", "local-endpoints 10.96.0.10 tcp 80 #0 → 10.244.0.2 8080", "service-ips 192.0.2.1 tcp 80 → outside-external-cluster-2-local-1"},
			chains:   []string{"external-cluster-2", "external-local-1", "outside-external-cluster-2-local-1 → external-cluster-2, outside → external-local-1", "service-cluster-2"},
		},
		"external policy Local, none here": {
			change: func(p *serviceport.Port) {
				p.NodePort, p.ExternalLocal, p.Local, p.Cluster = 30080, true, nil, p.Cluster[1:]
			},
			elements: []string{
				"-", "cluster-ips 10.96.0.10", "endpoints 10.96.0.10 tcp 80 #0 → 10.244.0.3 8080", "hairpin-connections 10.244.0.3 10.244.0.3 tcp 8080", "no-endpoint-nodeports tcp 30080 → drop", "nodeport-services tcp 30080 → 10.96.0.10 tcp 80",
				"service-ips 10.96.0.10 tcp 80 → service-cluster-1", "service-nodeports tcp 30080 → outside-nodeport-cluster-1-local-0",
			},
			chains: []string{"nodeport-cluster-1", "outside-nodeport-cluster-1-local-0 → nodeport-cluster-1, outside → ", "service-cluster-1"},
		},
		"internal policy Local, none here": {
			change:   func(p *serviceport.Port) { p.InternalLocal, p.Local, p.Cluster = true, nil, p.Cluster[1:] },
			elements: []string{"-", "cluster-ips 10.96.0.10", "no-endpoint-services 10.96.0.10 tcp 80 → drop"},
		},
		"source ranges": {
			change: func(p *serviceport.Port) {
				p.LoadBalancerIPs, p.Restricted, p.SourceRanges = []string{"192.0.2.2"}, true, []string{"198.51.100.0/24", "203.0.113.0/24"}
			},
			elements: []string{"external-services 192.0.2.2 tcp 80 → 10.96.0.10 tcp 80", "firewall-ips 192.0.2.2 tcp 80 → firewall-" + base, "service-ips 192.0.2.2 tcp 80 → outside-external-cluster-2"},
			chains:   []string{"external-cluster-2", "firewall-" + base + " allows 198.51.100.0/24 203.0.113.0/24", "outside-external-cluster-2 → external-cluster-2", "service-cluster-2"},
		},
		"source ranges with the node in them": {
			nodeIPs: "198.51.100.1",
			change: func(p *serviceport.Port) {
				p.LoadBalancerIPs, p.Restricted, p.SourceRanges = []string{"192.0.2.2"}, true, []string{"198.51.100.0/24"}
			},
			elements: []string{"external-services 192.0.2.2 tcp 80 → 10.96.0.10 tcp 80", "firewall-ips 192.0.2.2 tcp 80 → firewall-" + base, "service-ips 192.0.2.2 tcp 80 → outside-external-cluster-2"},
			chains:   []string{"external-cluster-2", "firewall-" + base + " allows 198.51.100.0/24 192.0.2.2/32", "outside-external-cluster-2 → external-cluster-2", "service-cluster-2"},
		},
		"affinity": {
			change: func(p *serviceport.Port) { p.Sticky, p.NodePort = 180*time.Minute, 30080 },
			elements: []string{
				"-", "cluster-ips 10.96.0.10", "endpoints 10.96.0.10 tcp 80 #0 → 10.244.0.2 8080", "endpoints 10.96.0.10 tcp 80 #1 → 10.244.0.3 8080",
				"hairpin-connections 10.244.0.2 10.244.0.2 tcp 8080", "members 10.96.0.10 tcp 80 10.244.0.2 8080", "members 10.96.0.10 tcp 80 10.244.0.3 8080",
				"nodeport-services tcp 30080 → 10.96.0.10 tcp 80", "service-ips 10.96.0.10 tcp 80 → sticky-cluster-" + base, "service-nodeports tcp 30080 → outside-" + base,
			},
			chains: []string{"outside-" + base + " → sticky-cluster-" + base, "sticky-cluster-" + base + " remembers in affinity-cluster-" + base + "-10800"},
		},
		"SCTP": {
			change:   func(p *serviceport.Port) { p.Protocol, p.Cluster, p.Local = "SCTP", p.Cluster[1:], nil },
			elements: []string{"-", "cluster-ips 10.96.0.10", "endpoints 10.96.0.10 sctp 80 #0 → 10.244.0.3 8080", "service-ips 10.96.0.10 sctp 80 → service-cluster-1"},
			chains:   []string{"service-cluster-1"},
		},
		"what no packet can have": {
			change: func(p *serviceport.Port) {
				p.NodePort, p.ExternalIPs = 1<<16, []string{"fe80::1%eth0", "", "300.1.1.1", "192.0.2.1/24", "0x7f.1"}
				p.Cluster = append(p.Cluster, serviceport.Endpoint{IP: "10.244.0.4", Port: 1 << 16}, serviceport.Endpoint{IP: "10.244.0.5", Port: -1}, serviceport.Endpoint{IP: "no", Port: 1})
			},
			chains: []string{"service-cluster-2"},
		},
		"another protocol":  {change: func(p *serviceport.Port) { p.Protocol = "tcp; drop" }, elements: []string{"-"}},
		"no such port":      {change: func(p *serviceport.Port) { p.Number = math.MaxInt32 }, elements: []string{"-"}},
		"another family":    {change: func(p *serviceport.Port) { p.ClusterIP = "fd00::1" }, elements: []string{"-"}},
		"an address within": {change: func(p *serviceport.Port) { p.ClusterIP = "::ffff:10.96.0.10" }, chains: []string{"service-cluster-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			pl := planner{f: ipv4}
			if tc.nodeIPs != "" {
				pl.nodeIPs = []netip.Addr{netip.MustParseAddr(tc.nodeIPs)}
			}
			got := pl.plan(servicePort(tc.change))
			want := slices.Concat(inside, tc.elements)
			if len(tc.elements) > 0 && tc.elements[0] == "-" {
				want = tc.elements[1:]
			}
			slices.Sort(want)
			same(t, "elements", texts(ipv4, elementsOf(got)), want)
			same(t, "chains", chainTexts(got), tc.chains)
		})
	}
}

func TestPlanIPv6(t *testing.T) {
	p := servicePort(func(p *serviceport.Port) {
		p.ClusterIP, p.ExternalIPs = "fd00:96::10", []string{"2001:db8::7", "192.0.2.7"}
		p.Cluster = []serviceport.Endpoint{{IP: "fd00:244::2", Port: 8080, Local: true}}
	})
	same(t, "elements", texts(ipv6, elementsOf(planner{f: ipv6}.plan(p))), []string{
		"cluster-ips fd00:96::10", "endpoints fd00:96::10 tcp 80 #0 → fd00:244::2 8080", "external-services 2001:db8::7 tcp 80 → fd00:96::10 tcp 80",
		"hairpin-connections fd00:244::2 fd00:244::2 tcp 8080", "service-ips 2001:db8::7 tcp 80 → outside-external-cluster-1", "service-ips fd00:96::10 tcp 80 → service-cluster-1",
	})
}

// TestNames: no two ports share a name, and no name is longer than the kernel takes (PIT-15,
// PIT-27), whatever services are called.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	ids := []serviceport.ID{
		{Name: proxy.Name{Namespace: "a", Name: "b"}, Port: "c", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: "a", Name: "b"}, Port: "c", Protocol: "UDP"},
		{Name: proxy.Name{Namespace: "a", Name: "b"}, Port: "", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: "a/b", Name: "c"}, Port: "", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: "a", Name: "b/c"}, Port: "", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: "a", Name: "b/tcp"}, Port: "c", Protocol: ""},
		{Name: proxy.Name{Namespace: "a", Name: "b"}, Port: "tcp/c", Protocol: ""},
		{Name: proxy.Name{Namespace: "", Name: ""}, Port: "", Protocol: ""},
		{Name: proxy.Name{Namespace: "a", Name: "b\x00c"}, Port: "", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: "a", Name: strings.Repeat("b", 4096)}, Port: "c", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: "a", Name: strings.Repeat("b", 4097)}, Port: "c", Protocol: "TCP"},
		{Name: proxy.Name{Namespace: long, Name: long}, Port: long, Protocol: "SCTP"},
	}
	seen := map[string]serviceport.ID{}
	for _, id := range ids {
		name := baseName(id)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q share the name %s", id, other, name)
		}
		seen[name] = id
		longest := affinityPrefix + "cluster-" + name + "-9223372036"
		if len(longest) > 255 {
			t.Errorf("%q: a name of %d characters", id, len(longest))
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < '-' || r > 'z' }) || !ofPort(name) {
			t.Errorf("%q: the name is %q", id, name)
		}
	}
	for _, h := range hooks {
		if ofPort(h.name) {
			t.Errorf("the chain %s is taken for one of a service", h.name)
		}
	}
	if ofPort(sharedPick(byNodePort, true, 7).name) {
		t.Error("a shared chain is taken for one of a service")
	}
}

// TestIntervals: ranges that overlap or meet are one, since the kernel refuses them else.
func TestIntervals(t *testing.T) {
	for text, want := range map[string]string{
		"":           "",
		"10.0.0.0/8": "10.0.0.0-11.0.0.0",
		"10.0.0.0/8 10.1.0.0/16 10.255.255.255/32": "10.0.0.0-11.0.0.0",
		"10.1.0.0/16 10.0.0.0/16":                  "10.0.0.0-10.2.0.0",
		"192.0.2.1/32 192.0.2.3/32":                "192.0.2.1-192.0.2.2 192.0.2.3-192.0.2.4",
		"0.0.0.0/0 10.0.0.0/8":                     "0.0.0.0-",
		"255.255.255.255/32 1.0.0.0/8":             "1.0.0.0-2.0.0.0 255.255.255.255-",
		"128.0.0.0/1 255.0.0.0/8 200.0.0.0/8":      "128.0.0.0-",
	} {
		var got strings.Builder
		for _, e := range intervals(ipv4.prefixes(strings.Fields(text))) {
			a, _ := netip.AddrFromSlice(e.Key)
			switch {
			case e.IntervalEnd:
				got.WriteString(a.String())
			case got.Len() > 0:
				got.WriteString(" " + a.String() + "-")
			default:
				got.WriteString(a.String() + "-")
			}
		}
		if got.String() != want {
			t.Errorf("%s: %s, want %s", text, got.String(), want)
		}
	}
}

func TestParseConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"masqueradeBit":32}`:                           "want 0 to 31",
		`{"masqueradeBit":-1}`:                           "want 0 to 31",
		`{"syncPeriod":"1ms"}`:                           "want a duration of 1s or more",
		`{"syncPeriod":"5s","minSyncPeriod":"6s"}`:       "to syncPeriod, which is 5s",
		`{"nodePortAddresses":["primary","10.0.0.0/8"]}`: "primary stands alone",
		`{"nodePortAddresses":["10.0.0.0"]}`:             "want a range such as",
		`{"masquerade":true}`:                            "unknown field",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	c, err := parseConfig(nil)
	if err != nil || c.mark != 0x4000 || c.sync != 30*time.Second || c.least != 0 || !c.everyAddress() {
		t.Errorf("defaults %+v, %v", c, err)
	}
	c, err = parseConfig([]byte(`{"nodePortAddresses":["primary"],"minSyncPeriod":"1s"}`))
	if err != nil || c.everyAddress() || c.nodePorts != nil || c.least != time.Second {
		t.Errorf("primary %+v, %v", c, err)
	}
}
