package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// families are the ranges of a cluster: IPv4 alone is what configs/standalone.yaml has.
type families struct {
	services, node, pods string // with a comma where there are two
}

// written is a shipped configuration with these ranges in the place of its own.
func (f families) written(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "configs", name))
	if err != nil {
		t.Fatal(err)
	}
	quoted := func(list string) string { return `"` + list + `"` }
	text, replaced := string(data), false
	for _, pair := range [][2]string{
		{"clusterCIDRs: [10.244.0.0/16]", "clusterCIDRs: [" + quoted(strings.ReplaceAll(f.pods, ",", `", "`)) + "]"},
		{
			"clusterCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/16, reservedCIDRs: [10.244.0.0/24]",
			"clusterCIDR: " + quoted(f.pods) + ", reservedCIDRs: [" + quoted(strings.ReplaceAll(f.node, ",", `", "`)) + "]",
		},
	} {
		replaced = replaced || strings.Contains(text, pair[0])
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	if !replaced {
		t.Fatalf("configs/%s has no ranges of the text that this test replaces", name)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newCellOf is newCell for a cluster of these families: the first of them is that of the nodes' first address.
func newCellOf(t *testing.T, name string, machines int, f families) *cell {
	t.Helper()
	needContainers(t)
	if lacks := withoutIPv6(); lacks != "" {
		t.Skip(lacks)
	}
	c := newBareCell(t, name, machines)
	for i, n := range c.lan.Networks {
		if err := n.AddIPv6(c.ipv6(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.kernelConfig, c.memberConfig = f.written(t, "standalone.yaml"), f.written(t, "node.yaml")
	c.set = func(machine int) []string {
		set := []string{"api.serviceCIDR=" + f.services}
		if machine == 0 {
			set = append(set, "node.podCIDR="+f.node)
			if strings.Contains(strings.Split(f.services, ",")[0], ":") {
				set = append(set, "api.bindAddress=::", "api.advertiseAddress="+c.ipv6(0))
			}
		}
		return set
	}
	c.begin(t)
	return c
}

// withoutIPv6 says why networks of this machine have no IPv6; "" where they have it.
func withoutIPv6() string {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return fmt.Sprintf("this machine has no IPv6: %v", err)
	}
	// A machine may have IPv6 and give none to new networks (the boot parameter ipv6.disable_ipv6).
	if off, err := os.ReadFile("/proc/sys/net/ipv6/conf/default/disable_ipv6"); err != nil || strings.TrimSpace(string(off)) != "0" {
		return fmt.Sprintf("this machine has IPv6 switched off: %q, %v", off, err)
	}
	return ""
}

// ipv6 is the address of a machine.
func (c *cell) ipv6(machine int) string { return fmt.Sprintf("2001:db8:10::%d", 10+machine) }

// podOf makes the pod of a machine, and returns its addresses.
func (c *cell) podOf(t *testing.T, machine int) []string {
	t.Helper()
	c.web(t, machine)
	p := c.awaitPod(t, "default", "on-"+c.node(machine), isReady)
	ips := make([]string, len(p.Status.PodIPs))
	for i, ip := range p.Status.PodIPs {
		ips[i] = ip.IP
	}
	if len(ips) == 0 || p.Status.PodIP != ips[0] {
		t.Fatalf("pod %s has podIP %q and podIPs %q", p.Name, p.Status.PodIP, ips)
	}
	return ips
}

// host writes an address as URLs have it.
func host(ip string) string {
	if strings.Contains(ip, ":") {
		return "[" + ip + "]"
	}
	return ip
}

// answered has the pod of a machine ask addresses of a service until the pods of all machines have answered by each.
func (c *cell) answered(t *testing.T, from, pods int, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		seen := map[string]bool{}
		c.reaches(t, from, host(address), func(who, _ string) error {
			if seen[who] = true; len(seen) < pods {
				return fmt.Errorf("from %s by %s only %v answered", c.node(from), address, seen)
			}
			return nil
		})
	}
}

// familiesOf are those of addresses, such as "46".
func familiesOf(ips []string) (out string) {
	for _, text := range ips {
		if netip.MustParseAddr(text).Is4() {
			out += "4"
		} else {
			out += "6"
		}
	}
	return out
}

// serviceOf makes a service of all pods, and returns what it has.
func (c *cell) serviceOf(t *testing.T, name, spec string) corev1.ServiceSpec {
	t.Helper()
	c.apply(t, "default", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: web}, ports: [{port: 8080}], %s}\n", name, spec))
	svc, err := c.client.CoreV1().Services("default").Get(bound(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return svc.Spec
}

// TestBothFamilies: D9, ARC-10: pods of two machines have an address of each IP family. They reach each other,
// services of all policies, host ports, names and the machines by both, and policies hold for both.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	c := newCellOf(t, "families", 1, families{
		services: "10.96.0.0/16,fd00:96::/112", node: "10.244.0.0/24,fd00:244::/64", pods: "10.244.0.0/16,fd00:244::/56",
	})
	c.join(t, 1, c.argument(t))
	nodes := c.ready(t, 2)
	for i := range 2 {
		n := nodes[c.node(i)]
		if len(n.Spec.PodCIDRs) != 2 || !strings.HasPrefix(n.Spec.PodCIDRs[0], "10.244.") || !strings.HasPrefix(n.Spec.PodCIDRs[1], "fd00:244:") || n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
			t.Errorf("%s has spec.podCIDRs %q", n.Name, n.Spec.PodCIDRs)
		}
		var internal []string
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				internal = append(internal, a.Address)
			}
		}
		if want := []string{c.lan.IP(i), c.ipv6(i)}; !slices.Equal(internal, want) {
			t.Errorf("%s has the addresses %q, want %q", n.Name, internal, want)
		}
	}
	c.awaitAccount(t, "default")
	pods := make([][]string, 2)
	for i := range pods {
		if pods[i] = c.podOf(t, i); familiesOf(pods[i]) != "46" {
			t.Fatalf("the pod on %s has %q", c.node(i), pods[i])
		}
	}
	c.bothWays(t, "at first", pods)
	t.Run("what a pod knows of itself", func(t *testing.T) { c.downward(t) })
	t.Run("services", func(t *testing.T) { c.servicesOfFamilies(t) })
	t.Run("the way out", func(t *testing.T) { c.wayOut(t) })
	t.Run("node ports and host ports", func(t *testing.T) { c.portsOfFamilies(t) })
	t.Run("policies", func(t *testing.T) {
		c.apply(t, "default", policyOf("in", fmt.Sprintf("podSelector: {matchLabels: {on: %s}}, ingress: [{from: [{ipBlock: {cidr: 10.244.0.0/16}}]}]", c.node(1))))
		c.unreached(t, 0, host(pods[1][1]))
		c.reaches(t, 0, pods[1][0], func(string, string) error { return nil })
		c.apply(t, "default", policyOf("in", fmt.Sprintf("podSelector: {matchLabels: {on: %s}}, ingress: [{from: [{podSelector: {matchLabels: {on: %s}}}]}]", c.node(1), c.node(0))))
		c.reaches(t, 0, host(pods[1][1]), func(string, string) error { return nil })
		c.apply(t, "default", policyOf("in", fmt.Sprintf("podSelector: {matchLabels: {on: %s}}, policyTypes: [Ingress]", c.node(1))))
		c.unreached(t, 0, host(pods[1][1]))
		c.unreached(t, 0, pods[1][0])
		c.kubectl(t, "-n", "default", "delete", "networkpolicy", "in")
		c.bothWays(t, "without policies", pods)
	})
	c.kubectl(t, "delete", "pod", "-n", "default", "--all", "--timeout=110s")
}

// bothWays: pods reach each other by each family, and are known by their own address.
func (c *cell) bothWays(t *testing.T, when string, pods [][]string) {
	t.Helper()
	for from := range pods {
		for to := range pods {
			for i, ip := range pods[to] {
				c.reaches(t, from, host(ip), func(who, client string) error {
					if who != "on-"+c.node(to) || client != pods[from][i] {
						return fmt.Errorf("%s: from %s to %s: %s answers, and sees %s", when, pods[from][i], ip, who, client)
					}
					return nil
				})
			}
		}
		// The machine of each reaches all pods.
		ask := asker(c.lan.Networks[from])
		for to := range pods {
			for _, ip := range pods[to] {
				eventually(t, func(context.Context) error {
					page, err := ask(host(ip) + ":8080")
					if err == nil && !strings.HasPrefix(page, "on-"+c.node(to)+" ") {
						err = fmt.Errorf("%s: %s has of %s: %q", when, c.node(from), ip, page)
					}
					return err
				})
			}
		}
	}
}

// downward: a pod reads its addresses and its node's from the environment.
func (c *cell) downward(t *testing.T) {
	c.apply(t, "default", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: knows}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
  - name: c
    image: %s
    args: [serve]
    env:
    - {name: PODS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
    - {name: HOSTS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
`, c.node(1), box))
	p := c.awaitPod(t, "default", "knows", isReady)
	if len(p.Status.PodIPs) != 2 || len(p.Status.HostIPs) != 2 {
		t.Fatalf("podIPs %v, hostIPs %v", p.Status.PodIPs, p.Status.HostIPs)
	}
	r := c.kubectl(t, "-n", "default", "exec", "knows", "--", "/box", "env")
	contains(t, r, "PODS="+p.Status.PodIPs[0].IP+","+p.Status.PodIPs[1].IP, "HOSTS="+c.lan.IP(1)+","+c.ipv6(1))
	c.kubectl(t, "-n", "default", "delete", "pod", "knows", "--timeout=110s")
}

// servicesOfFamilies: each policy gives the addresses that Kubernetes gives, by which all pods answer, also by name.
func (c *cell) servicesOfFamilies(t *testing.T) {
	for name, tt := range map[string]struct{ spec, want string }{
		"single":    {"type: ClusterIP", "4"},
		"single6":   {"ipFamilies: [IPv6]", "6"},
		"prefer":    {"ipFamilyPolicy: PreferDualStack", "46"},
		"require":   {"ipFamilyPolicy: RequireDualStack", "46"},
		"require64": {"ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4]", "64"},
	} {
		s := c.serviceOf(t, name, tt.spec)
		if familiesOf(s.ClusterIPs) != tt.want || s.ClusterIP != s.ClusterIPs[0] || len(s.IPFamilies) != len(tt.want) {
			t.Errorf("%s has the addresses %q, families %q", name, s.ClusterIPs, s.IPFamilies)
			continue
		}
		for from := range 2 {
			c.answered(t, from, 2, append(s.ClusterIPs, name+".default.svc.cluster.local")...)
			// And the machine itself.
			ask := asker(c.lan.Networks[from])
			for _, ip := range s.ClusterIPs {
				eventually(t, func(context.Context) error {
					_, err := ask(host(ip) + ":8080")
					return err
				})
			}
		}
	}
	// Up to both families, and down again.
	for _, step := range []struct{ policy, want string }{{"RequireDualStack", "46"}, {"SingleStack", "4"}, {"PreferDualStack", "46"}} {
		c.kubectl(t, "-n", "default", "patch", "service", "single", "-p", fmt.Sprintf(`{"spec": {"ipFamilyPolicy": %q}}`, step.policy))
		svc, err := c.client.CoreV1().Services("default").Get(bound(t), "single", metav1.GetOptions{})
		if err != nil || familiesOf(svc.Spec.ClusterIPs) != step.want {
			t.Fatalf("with %s: %q, %v", step.policy, svc.Spec.ClusterIPs, err)
		}
		c.answered(t, 0, 2, svc.Spec.ClusterIPs...)
	}
	// A headless service's name has the addresses of both.
	c.serviceOf(t, "headless", "clusterIP: None, ipFamilyPolicy: PreferDualStack")
	eventually(t, func(context.Context) error {
		r := c.try(t, "-n", "default", "exec", "on-"+c.node(0), "--", "/box", "lookup", "headless.default.svc.cluster.local")
		if r.err != nil || len(strings.Fields(r.stdout)) != 4 || strings.Count(r.stdout, "fd00:244:") != 2 {
			return fmt.Errorf("the headless name has %q, %v, %s", r.stdout, r.err, r.stderr)
		}
		return nil
	})
}

// wayOut: what a pod sends beyond the cluster, such as to another machine, has its node's address of that family.
func (c *cell) wayOut(t *testing.T) {
	for _, at := range []struct{ machine, node string }{{c.lan.IP(1), c.lan.IP(0)}, {c.ipv6(1), c.ipv6(0)}} {
		listener, err := c.lan.Networks[1].Listen("tcp", net.JoinHostPort(at.machine, "8080"))
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "outside %s\n", r.RemoteAddr) })}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		c.reaches(t, 0, host(at.machine), func(who, client string) error {
			if who != "outside" || client != at.node {
				return fmt.Errorf("%s answers, and sees %s; want %s", who, client, at.node)
			}
			return nil
		})
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

// portsOfFamilies: node ports and host ports answer at both addresses of a machine.
func (c *cell) portsOfFamilies(t *testing.T) {
	s := c.serviceOf(t, "ports", "type: NodePort, ipFamilyPolicy: RequireDualStack")
	c.kubectl(t, "label", "namespace", "default", "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
	c.apply(t, "default", web("hosts", "{containerPort: 8080, hostPort: 8090}"))
	p := c.awaitPod(t, "default", "hosts", isReady)
	machine := 0
	if p.Spec.NodeName == c.node(1) {
		machine = 1
	}
	outside := asker(c.lan.Networks[1-machine])
	for _, address := range []string{c.lan.IP(machine), host(c.ipv6(machine))} {
		for _, at := range []string{fmt.Sprint(address, ":", s.Ports[0].NodePort), address + ":8090"} {
			eventually(t, func(context.Context) error {
				page, err := outside(at)
				if err == nil && strings.HasSuffix(at, ":8090") && !strings.HasPrefix(page, "hosts ") {
					err = fmt.Errorf("%s answers %q", at, page)
				}
				return err
			})
		}
	}
	c.kubectl(t, "-n", "default", "delete", "pod", "hosts", "--timeout=110s")
}

// TestIPv6First: IPv6 is the first family of a cluster with both: pods, nodes and services have it first.
func TestIPv6First(t *testing.T) {
	t.Parallel()
	c := newCellOf(t, "ipv6first", 0, families{
		services: "fd00:96::/112,10.96.0.0/16", node: "fd00:244::/64,10.244.0.0/24", pods: "fd00:244::/56,10.244.0.0/16",
	})
	c.expectFamilies(t, "64")
}

// TestIPv6Cluster: a cluster has IPv6 alone.
func TestIPv6Cluster(t *testing.T) {
	t.Parallel()
	c := newCellOf(t, "ipv6", 0, families{services: "fd00:96::/112", node: "fd00:244::/64", pods: "fd00:244::/56"})
	c.expectFamilies(t, "6")
}

// expectFamilies: of a cluster of one machine pods and services have the families in order, and names are answered.
func (c *cell) expectFamilies(t *testing.T, want string) {
	t.Helper()
	c.ready(t, 1)
	c.awaitAccount(t, "default")
	ips := c.podOf(t, 0)
	if familiesOf(ips) != want {
		t.Errorf("the pod has %q", ips)
	}
	s := c.serviceOf(t, "web", "ipFamilyPolicy: PreferDualStack")
	if familiesOf(s.ClusterIPs) != want {
		t.Errorf("the service has %q", s.ClusterIPs)
	}
	c.answered(t, 0, 1, append(append(s.ClusterIPs, "web"), ips...)...)
	svc, err := c.client.CoreV1().Services("default").Get(bound(t), "kubernetes", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "fd00:96::1" || len(svc.Spec.ClusterIPs) != 1 {
		t.Errorf("service kubernetes: %+v, %v", svc.Spec, err)
	}
	c.kubectl(t, "delete", "pod", "-n", "default", "--all", "--timeout=110s")
}
