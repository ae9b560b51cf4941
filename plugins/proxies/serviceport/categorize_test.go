package serviceport

import (
	"fmt"
	"strings"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// endpoint reads "1 ready local zone=a node=n1".
func endpoint(text string) *proxy.Endpoint {
	words := strings.Fields(text)
	e := &proxy.Endpoint{Ip: "10.0.0." + words[0], Port: 80}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "ready":
			e.Ready, e.Serving = true, true
		case "ending":
			e.Serving, e.Terminating = true, true
		case "dead":
			e.Terminating = true
		case "local":
			e.Local = true
		case "zone":
			e.ZoneHints = strings.Split(value, ",")
		case "node":
			e.NodeHints = strings.Split(value, ",")
		}
	}
	return e
}

// What each traffic policy has: the cases of kube-proxy's CategorizeEndpoints.
func TestCategorize(t *testing.T) {
	for name, tc := range map[string]struct {
		list           []string
		zone           string
		cluster, local string
	}{
		"nobody":                     {nil, "", "", ""},
		"ready":                      {[]string{"1 ready local", "2 ready"}, "", "1 2", "1"},
		"none is local":              {[]string{"2 ready"}, "", "2", ""},
		"not ready":                  {[]string{"1 local", "2 ready"}, "", "2", ""},
		"local ends, others ready":   {[]string{"1 ending local", "2 ready"}, "", "2", "1"},
		"all end":                    {[]string{"1 ending local", "2 ending"}, "", "1 2", "1"},
		"local ready, others end":    {[]string{"1 ready local", "2 ending"}, "", "1", "1"},
		"one local ends, one ready":  {[]string{"1 ending local", "2 ready local"}, "", "2", "2"},
		"ends and does not serve":    {[]string{"1 dead local", "2 ready"}, "", "2", ""},
		"twice the same":             {[]string{"1 ready", "1 ready"}, "", "1", ""},
		"hints for the zone":         {[]string{"1 ready zone=a", "2 ready local zone=b"}, "a", "1", "2"},
		"hint for two zones":         {[]string{"1 ready zone=a,b", "2 ready zone=b"}, "a", "1", ""},
		"no hint for the zone":       {[]string{"1 ready zone=a", "2 ready zone=b"}, "c", "1 2", ""},
		"one without a hint":         {[]string{"1 ready zone=a", "2 ready"}, "a", "1 2", ""},
		"one not ready has none":     {[]string{"1 ready zone=a", "2"}, "a", "1", ""},
		"the node has no zone":       {[]string{"1 ready zone=a"}, "", "1", ""},
		"hints for the node":         {[]string{"1 ready zone=a node=n1", "2 ready zone=a node=n2"}, "a", "1", ""},
		"no hint for the node":       {[]string{"1 ready zone=a node=n2", "2 ready zone=b node=n3"}, "a", "1", ""},
		"hinted one ends":            {[]string{"1 ending zone=a", "2 ready zone=b"}, "a", "2", ""},
		"hints do not narrow ending": {[]string{"1 ending zone=a", "2 ending zone=b"}, "a", "1 2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var list []*proxy.Endpoint
			for _, text := range tc.list {
				list = append(list, endpoint(text))
			}
			words := func(list []Endpoint) string {
				var out []string
				for _, e := range list {
					out = append(out, strings.TrimPrefix(e.IP, "10.0.0."))
				}
				return strings.Join(out, " ")
			}
			cluster, local := categorize(list, "n1", tc.zone, IPv4)
			if got, want := fmt.Sprintf("%s | %s", words(cluster), words(local)), fmt.Sprintf("%s | %s", tc.cluster, tc.local); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// A change of the zone touches every service.
func TestZoneChanges(t *testing.T) {
	var s proxy.State
	name := &proxy.ServiceName{Namespace: "d", Name: "s"}
	s.Apply(&proxy.Diff{Generation: 1, Reset_: true, Node: &proxy.Node{Zone: "a"}, Changes: changes(name, endpoint("1 ready zone=a"), endpoint("2 ready zone=b"))})
	id := proxy.NameOf(name)
	if got := Of(&s, id, "n")[0].Cluster; len(got) != 1 || got[0].IP != "10.0.0.1" {
		t.Errorf("in zone a: %v", got)
	}
	if touched := s.Apply(&proxy.Diff{Generation: 2, Node: &proxy.Node{Zone: "b"}}); !touched[id] {
		t.Error("the service is not touched by another zone")
	}
	if got := Of(&s, id, "n")[0].Cluster; len(got) != 1 || got[0].IP != "10.0.0.2" {
		t.Errorf("in zone b: %v", got)
	}
	if touched := s.Apply(&proxy.Diff{Generation: 3, Node: &proxy.Node{Zone: "b", Ineligible: true}}); len(touched) != 0 {
		t.Errorf("touched without another zone: %v", touched)
	}
}

func changes(name *proxy.ServiceName, list ...*proxy.Endpoint) []*proxy.Change {
	return []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{Name: name, ClusterIps: []string{"10.96.0.1"}, Ports: []*proxy.ServicePort{{Protocol: "TCP", Port: 80}}}}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{Name: name, Ports: []*proxy.PortEndpoints{{Protocol: "TCP", Endpoints: list}}}}},
	}
}

// A service of both families has ports in each, with that family's addresses and endpoints alone;
// hints of one family do not count for the other.
func TestFamilies(t *testing.T) {
	var s proxy.State
	name := &proxy.ServiceName{Namespace: "d", Name: "s"}
	list := changes(name, endpoint("1 ready zone=a"), endpoint("2 ready zone=b"), &proxy.Endpoint{Ip: "fd00::1", Port: 80, Ready: true, Serving: true})
	svc := list[0].GetServiceSet()
	svc.ClusterIps = []string{"10.96.0.1", "fd00:96::1"}
	svc.ExternalIps = []string{"2001:db8::7", "192.0.2.7"}
	svc.LoadBalancerIps = []string{"::ffff:192.0.2.8", "2001:db8::8", "nonsense"}
	svc.LoadBalancerSourceRanges = []string{"2001:db8::/32", "10.0.0.0/8"}
	s.Apply(&proxy.Diff{Generation: 1, Reset_: true, Node: &proxy.Node{Zone: "a"}, Changes: list})
	id := proxy.NameOf(name)
	for family, want := range map[Family]string{
		IPv4: "10.96.0.1 [192.0.2.7] [::ffff:192.0.2.8] [10.0.0.0/8] [{10.0.0.1 80 false}]",
		IPv6: "fd00:96::1 [2001:db8::7] [2001:db8::8] [2001:db8::/32] [{fd00::1 80 false}]",
	} {
		ports := OfFamily(&s, id, "n", family)
		if len(ports) != 1 {
			t.Fatalf("IPv%d: %d ports", family, len(ports))
		}
		p := ports[0]
		if got := fmt.Sprint(p.ClusterIP, " ", p.ExternalIPs, " ", p.LoadBalancerIPs, " ", p.SourceRanges, " ", p.Cluster); got != want {
			t.Errorf("IPv%d: %s, want %s", family, got, want)
		}
	}
	svc.ClusterIps = []string{"10.96.0.1"}
	if ports := OfFamily(&s, id, "n", IPv6); ports != nil {
		t.Errorf("a service without an IPv6 address has IPv6 ports: %v", ports)
	}
}
