package corefile

import (
	"strings"
	"testing"
)

func node() *Node {
	return &Node{Address: "192.0.2.1", Port: 10053, Clients: []string{"192.0.2.1", "10.244.0.0/24"}, Domain: "cluster.local", Upstreams: []string{"198.51.100.1"}}
}

// What the keys say is in the Corefile, each in the block that it belongs to.
func TestRenderFromKeys(t *testing.T) {
	for _, x := range []struct {
		name, config string
		want, not    []string
	}{
		{
			name: "defaults",
			want: []string{".:10053 {", "bind 192.0.2.1\n", "clients 1000 192.0.2.1 10.244.0.0/24", "waiting 750\n", "kubernetes cluster.local in-addr.arpa ip6.arpa {", "pods insecure", "ttl 30", "cache 30 {", "success 9984", "disable success cluster.local", "forward . 198.51.100.1 {", "loop", "prometheus 127.0.0.1:0"},
			not:  []string{"\tlog\n", "hosts {", "health", "ready"},
		},
		{
			name:   "own upstreams and stub domains",
			config: `{"upstreamNameservers": ["203.0.113.9:5353"], "stubDomains": {"corp.example": ["203.0.113.1", "203.0.113.2"]}, "maxConcurrent": 50}`,
			want:   []string{"forward . 203.0.113.9:5353 {", "corp.example:10053 {", "forward . 203.0.113.1 203.0.113.2 {", "max_concurrent 50", "clients 50 "},
			not:    []string{"198.51.100.1"},
		},
		{name: "nothing is kept", config: `{"cacheTTL": 0, "ttl": 0, "log": true}`, want: []string{"ttl 0\n", "\tlog\n"}, not: []string{"cache"}},
		{name: "hosts", config: `{"hosts": {"203.0.113.5": ["a.example", "b.example"]}, "pods": "disabled"}`, want: []string{"hosts {\n\t\t203.0.113.5 a.example b.example\n\t\tfallthrough", "pods disabled"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, err := Decode([]byte(x.config), false)
			if err != nil {
				t.Fatal(err)
			}
			text, err := Render(&c, node())
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range x.want {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in\n%s", w, text)
				}
			}
			for _, w := range x.not {
				if strings.Contains(text, w) {
					t.Errorf("%q is in\n%s", w, text)
				}
			}
		})
	}
}

// A machine that names no nameserver has the cluster's names all the same.
func TestRenderWithoutUpstreams(t *testing.T) {
	c, err := Decode(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	n := node()
	n.Upstreams = nil
	text, err := Render(&c, n)
	if err != nil || strings.Contains(text, "forward") || strings.Contains(text, "loop") || !strings.Contains(text, "kubernetes cluster.local") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Keys that are wrong are refused by name, also those that would say something else in
// a Corefile than what they are.
func TestConfigIsChecked(t *testing.T) {
	for config, want := range map[string]string{
		`{"colour": "red"}`:                        `unknown field "colour"`,
		`{} {}`:                                    "something after it",
		`{"port": 70000}`:                          "port: want 0 to 65535",
		`{"metricsPort": -2}`:                      "metricsPort",
		`{"cacheSize": 100000000}`:                 "cacheSize",
		`{"maxConcurrent": 999999}`:                "maxConcurrent",
		`{"ttl": 3601}`:                            "ttl",
		`{"cacheTTL": -1}`:                         "cacheTTL",
		`{"pods": "some"}`:                         "pods: want",
		`{"pods": "verified"}`:                     "coredns-verified",
		`{"upstreamNameservers": ["dns.example"]}`: "no address of a nameserver",
		`{"upstreamNameservers": ["/etc/shadow"]}`: "no address of a nameserver",
		`{"upstreamNameservers": ["1.1.1.1 {\n except x\n}\n whoami"]}`: "no address of a nameserver",
		`{"upstreamNameservers": ["tls://1.1.1.1"]}`:                    "no address of a nameserver",
		`{"stubDomains": {"a.example": []}}`:                            "has no nameserver",
		`{"stubDomains": {"a.example {\n}\n.:53": ["1.1.1.1"]}}`:        "is no domain",
		`{"stubDomains": {".": ["1.1.1.1"]}}`:                           "is no domain",
		`{"stubDomains": {"{$HOME}": ["1.1.1.1"]}}`:                     "is no domain",
		`{"stubDomains": {"tls://a.example": ["1.1.1.1"]}}`:             "is no domain",
		`{"hosts": {"here": ["a"]}}`:                                    "hosts",
		`{"hosts": {"203.0.113.5": ["a\nforward . 203.0.113.6"]}}`:      "is no domain",
	} {
		if _, err := Decode([]byte(config), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	if c, err := Decode([]byte(`{"pods": "verified"}`), true); err != nil || c.Pods != "verified" {
		t.Errorf("verified: %+v, %v", c, err)
	}
}

// kubeadm is the Corefile that kubeadm writes.
const kubeadm = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

// The Corefile of the field runs on a node: at its address, for its clients, with
// nothing open to others.
func TestAdaptKubeadms(t *testing.T) {
	text, err := Render(&Config{Corefile: kubeadm, MaxConcurrent: 7}, node())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".:10053 {", "bind 192.0.2.1", "clients 7 192.0.2.1 10.244.0.0/24", "shed", "health 127.0.0.1:8080 {", "lameduck 5s", "ready 127.0.0.1:8181",
		"endpoint http://pintle.local", "pods insecure", "prometheus 127.0.0.1:0", "forward . 198.51.100.1 {", "max_concurrent 1000", "disable denial cluster.local", "loop", "loadbalance",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"reload", ":9153", "resolv.conf", ":53 "} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in\n%s", not, text)
		}
	}
}

// Words with blanks and quotes are what they were.
func TestAdaptKeepsWords(t *testing.T) {
	text, err := Render(&Config{Corefile: "example.org {\n template IN A {\n  match \"^a (b)\"\n  answer \"{{ .Name }} 60 IN A \\\"x\\\"\"\n }\n rewrite name regex (.*)\\.a {1}.b\n}\n10.0.0.0/16 2001:db8::/32 {\n whoami\n}\n"}, node())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`match "^a (b)"`, `answer "{{ .Name }} 60 IN A \"x\""`, `rewrite name regex (.*)\.a {1}.b`, "example.org:10053", "0.10.in-addr.arpa.:10053", "8.b.d.0.1.0.0.2.ip6.arpa.:10053"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A Corefile may not open what the node does not: other ports, other addresses, other
// clients, other ways to the API.
func TestAdaptRefuses(t *testing.T) {
	for corefile, want := range map[string]string{
		"# nothing\n":                     "no server block",
		".:53 {":                          "corefile",
		"tls://. {\n}":                    "plain DNS",
		"https://.:443 {\n}":              "plain DNS",
		".:5300 {\n}":                     "one port",
		". {\n bind 0.0.0.0\n}":           "bind:",
		". {\n clients 9 0.0.0.0/0\n}":    "clients:",
		". {\n waiting 9\n}":              "waiting:",
		"import /etc/passwd\n. {\n}":      "import:",
		". { import /etc/passwd\n}":       "import:",
		". {\n \"import\" /etc/passwd\n}": "import:",
		". {\n import x\n}":               "import:",
		". {\n kubernetes {\n  endpoint https://203.0.113.1\n }\n}":  "endpoint:",
		". {\n kubernetes {\n  kubeconfig /root/.kube/config\n }\n}": "kubeconfig:",
		". {\n kubernetes {\n  tls a b c\n }\n}":                     "tls:",
		". {\n kubernetes {\n  pods verified\n }\n}":                 "coredns-verified",
		". {\n kubernetes {\n  multicluster a.local\n }\n}":          "multicluster",
		". {\n health here\n}":                                       "health:",
	} {
		if text, err := Render(&Config{Corefile: corefile}, node()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q\n%s", corefile, err, want, text)
		}
	}
}

// Whatever is written, each block that comes out is bound and has its clients named,
// or is refused.
func FuzzAdapt(f *testing.F) {
	f.Add(kubeadm)
	f.Add(". {\n kubernetes\n}\na.example {\n whoami\n}")
	f.Add("(s) {\n log\n}\n. {\n forward . {$X}\n}")
	f.Fuzz(func(t *testing.T, corefile string) {
		if corefile == "" {
			return // the keys' own
		}
		text, err := Render(&Config{Corefile: corefile, MaxConcurrent: 7}, node())
		if err != nil {
			return
		}
		if strings.Count(text, "bind 192.0.2.1") < 1 || strings.Count(text, "clients 7 192.0.2.1 10.244.0.0/24") < 1 {
			t.Errorf("%q became\n%s", corefile, text)
		}
	})
}
