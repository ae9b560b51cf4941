package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, Containers: []corev1.Container{{Name: "c"}}}}
	if change != nil {
		change(p)
	}
	return p
}

// TestResolver: D-9: policies, at most 3 name servers and 32 searches, ndots:5.
func TestResolver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("# comment\nnameserver 9.9.9.9\nsearch corp.example.\noptions rotate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := Resolver{ClusterDNS: []string{"10.0.0.10"}, ClusterDomain: "cluster.local", ResolvConf: file}
	three := "3"
	for _, c := range []struct {
		name                       string
		resolver                   Resolver
		change                     func(*corev1.Pod)
		servers, searches, options string
		warnings                   int
	}{
		{"cluster first", r, nil, "10.0.0.10", "ns.svc.cluster.local svc.cluster.local cluster.local corp.example", "ndots:5", 0},
		{"default", r, func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }, "9.9.9.9", "corp.example", "rotate", 0},
		{"host network", r, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "9.9.9.9", "corp.example", "rotate", 0},
		{"host network, cluster names", r, func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet }, "10.0.0.10", "ns.svc.cluster.local svc.cluster.local cluster.local corp.example", "ndots:5", 0},
		{"none", r, func(p *corev1.Pod) {
			p.Spec.DNSPolicy = corev1.DNSNone
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}}
		}, "1.1.1.1 2.2.2.2 3.3.3.3", "", "", 1},
		{"options merge", r, func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &three}, {Name: "edns0"}}}
		}, "10.0.0.10", "ns.svc.cluster.local svc.cluster.local cluster.local corp.example", "ndots:3 edns0", 0},
		{"no cluster dns", Resolver{ResolvConf: file}, nil, "9.9.9.9", "corp.example", "rotate", 1},
		{"its service is absent", Resolver{ClusterDNS: r.ClusterDNS, Absent: func() bool { return true }, ResolvConf: file}, nil, "9.9.9.9", "corp.example", "rotate", 1},
		{"its service is there", Resolver{ClusterDNS: r.ClusterDNS, Absent: func() bool { return false }, ClusterDomain: "x", ResolvConf: file}, nil, "10.0.0.10", "ns.svc.x svc.x x corp.example", "ndots:5", 0},
		{"no cluster dns, simulated", Resolver{ResolvConf: file, Simulated: true}, nil, "9.9.9.9", "corp.example", "rotate", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, warnings, err := c.resolver.For(pod(c.change))
			if err != nil {
				t.Fatal(err)
			}
			if s := strings.Join(got.Servers, " "); s != c.servers {
				t.Errorf("servers %q", s)
			}
			if s := strings.Join(got.Searches, " "); s != c.searches {
				t.Errorf("searches %q", s)
			}
			if s := strings.Join(got.Options, " "); s != c.options {
				t.Errorf("options %q", s)
			}
			if len(warnings) != c.warnings {
				t.Errorf("warnings %v", warnings)
			}
		})
	}
}

// TestConfig: names, host name, ports and namespaces of a sandbox.
func TestConfig(t *testing.T) {
	yes := true
	p := pod(func(p *corev1.Pod) {
		p.Name = strings.Repeat("x", 70)
		p.Spec.ShareProcessNamespace, p.Spec.HostIPC = &yes, true
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "99"}}}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP, HostIP: "127.0.0.1"}}
	})
	c, _, err := Config(Input{Pod: p, Attempt: 2, LogDir: "/logs", CgroupParent: "/kubepods/podu"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Hostname) != 63 || c.LogDirectory != "/logs/pods/ns_"+p.Name+"_u" || c.Metadata.Attempt != 2 || c.Linux.CgroupParent != "/kubepods/podu" || c.Linux.Sysctls["net.core.somaxconn"] != "99" {
		t.Errorf("config %+v", c)
	}
	if m := c.PortMappings; len(m) != 1 || m[0].HostPort != 5353 || m[0].Protocol != runtimeapi.Protocol_UDP || m[0].HostIp != "127.0.0.1" {
		t.Errorf("ports %v", m)
	}
	if n := c.Linux.SecurityContext.NamespaceOptions; n.Pid != runtimeapi.NamespaceMode_POD || n.Ipc != runtimeapi.NamespaceMode_NODE || n.Network != runtimeapi.NamespaceMode_POD {
		t.Errorf("namespaces %v", n)
	}
	long := pod(func(p *corev1.Pod) {
		p.Spec.SetHostnameAsFQDN, p.Spec.Subdomain, p.Spec.Hostname = &yes, strings.Repeat("s", 60), "h"
	})
	if _, _, err := Config(Input{Pod: long}); err == nil || !strings.Contains(err.Error(), "64 characters is the max") {
		t.Errorf("too long name: %v", err)
	}
	if !slices.Contains(strings.Split(LogDirectory("/l", "a", "b", "c"), "/"), "a_b_c") {
		t.Error("log directory")
	}
}

// TestMissingClusterDNS: D6: the words of the kubelet.
func TestMissingClusterDNS(t *testing.T) {
	_, warnings, err := Resolver{ResolvConf: os.DevNull}.For(pod(nil))
	want := []Warning{{"MissingClusterDNS", `pod: "p_ns(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`}}
	if err != nil || !slices.Equal(warnings, want) {
		t.Errorf("%q %v", warnings, err)
	}
}

// TestReachable: a stub on loopback is of no use in a pod.
func TestReachable(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	systemd, none := file("systemd", "nameserver 10.0.0.2\n"), filepath.Join(dir, "none")
	for text, stub := range map[string]bool{
		"nameserver 127.0.0.53\noptions edns0\n":      true,
		"nameserver 127.0.0.53\nnameserver ::1\n":     true,
		"nameserver 127.0.0.53\nnameserver 8.8.8.8\n": false,
		"nameserver 8.8.8.8\n":                        false,
		"search a\n":                                  false,
		"nameserver nonsense\n":                       false,
	} {
		etc := file("etc", text)
		want := etc
		if stub {
			want = systemd
		}
		if got := reachable(etc, systemd); got != want {
			t.Errorf("%q: %s is used", text, got)
		}
		if got := reachable(etc, none); got != etc {
			t.Errorf("%q: %s is used, which is not there", text, got)
		}
	}
}
