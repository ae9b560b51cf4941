package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
)

// policyTable is what the plugin has of the machine's packet filter.
const policyTable = "pintle-networkpolicy"

// square is pods x, y and z in namespaces of those names, with what they send and receive.
type square struct {
	*env
	hosts      map[string]*truth.Host
	namespaces map[string]string // by their short names
}

// TestNetworkPolicies: packets between pods of a real node, under policies that kubectl
// applies: upstream's truth tables, services, probes, rules deleted by hand, a plugin that is
// killed, pods that start (requirements 21.14 to 21.20).
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	needContainers(t)
	e := private(t, cluster.Options{Name: "policies", Config: "configs/standalone.yaml"})
	eventually(t, func(context.Context) error {
		if screen := strings.Join(e.Screen(), "\n"); !strings.Contains(screen, "policies  networkpolicy") {
			return fmt.Errorf("the plugin is not among what is said:\n%s", screen)
		}
		return nil
	})
	if e.hasTable(t) {
		t.Error("without policies there is a table")
	}
	s := e.square(t)
	s.holds(t, "no policy")
	for _, step := range []struct{ name, policy string }{
		{"nobody in", "podSelector: {}"},
		{"ports and peers", "podSelector: {matchLabels: {pod: x}}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, podSelector: {matchLabels: {pod: x}}}, {podSelector: {}}], ports: [{port: 81}, {port: 80, endPort: 81, protocol: UDP}, {port: 80, protocol: SCTP}]}]"},
		{"names", "podSelector: {}, ingress: [{ports: [{port: serve}]}]"},
		{"out", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchExpressions: [{key: ns, operator: In, values: ['y', z]}]}}], ports: [{port: serve}, {protocol: SCTP}]}]"},
		{"except", "podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [" + s.ip(t, "y/y") + "/32]}}]}], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [" + s.ip(t, "z/z") + "/32]}}]}]"},
	} {
		s.apply(t, s.namespaces["x"], policyOf("p", step.policy))
		s.holds(t, step.name)
	}
	s.kubectl(t, "-n", s.namespaces["y"], "label", "pod", "y", "pod=x", "--overwrite")
	s.apply(t, s.namespaces["x"], policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, podSelector: {matchLabels: {pod: x}}}]}]"))
	s.holds(t, "a label that came")
	s.kubectl(t, "label", "namespace", s.namespaces["z"], "ns=y", "--overwrite")
	s.holds(t, "a namespace's label that came")
	t.Run("faults", s.faults)
	t.Run("services", s.throughServices)
	t.Run("starting pods", s.startingPods)
	t.Run("budget", s.budget)
	for _, ns := range s.namespaces {
		s.kubectl(t, "-n", ns, "delete", "networkpolicies", "--all")
	}
	s.holds(t, "none again")
	eventually(t, func(context.Context) error {
		if e.hasTable(t) {
			return fmt.Errorf("after the last policy there is a table")
		}
		return nil
	})
}

// policyOf is a policy with a spec in one line.
func policyOf(name, spec string) string {
	return "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

// hasTable asks the machine of a cluster.
func (e *env) hasTable(t *testing.T) bool {
	t.Helper()
	var has bool
	if err := e.Network.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
		for _, found := range tables {
			has = has || found.Name == policyTable
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return has
}

// word is one that no container of another cluster has among its arguments.
func (s *square) word(ns, pod string) string {
	return fmt.Sprintf("square-%s-%s-%s", ns, pod, filepath.Base(s.Data))
}

// square makes the pods and answers in their network namespaces.
func (e *env) square(t *testing.T) *square {
	t.Helper()
	s := &square{env: e, hosts: map[string]*truth.Host{}, namespaces: map[string]string{}}
	for _, ns := range truth.Names {
		name := "policies-" + ns
		s.namespaces[ns] = name
		e.kubectl(t, "create", "namespace", name)
		e.kubectl(t, "label", "namespace", name, "ns="+ns)
		e.awaitAccount(t, name)
		for i, pod := range truth.Names {
			e.apply(t, name, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: '%[1]s', labels: {pod: '%[1]s'}}
spec:
  automountServiceAccountToken: false
  containers:
  - {name: c, image: %[2]s, args: [wait, %[3]s], ports: [{name: serve, containerPort: %[4]d}, {name: wire, containerPort: 80, protocol: SCTP}]}
`, pod, box, s.word(ns, pod), 80+i))
		}
	}
	for _, ns := range truth.Names {
		for _, pod := range truth.Names {
			e.awaitPod(t, s.namespaces[ns], pod, isReady)
			h, err := truth.HostOf(fmt.Sprintf("/proc/%d/ns/net", pidOf(t, s.word(ns, pod))))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = h.Close() })
			if err := h.Serve([]program.Family{program.IP4}, 80, 81); err != nil {
				t.Fatal(err)
			}
			s.hosts[ns+"/"+pod] = h
		}
	}
	return s
}

// pidOf is the process of a box that waits with that word.
func pidOf(t *testing.T, word string) (pid int) {
	t.Helper()
	eventually(t, func(context.Context) error {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		for _, file := range files {
			if line, err := os.ReadFile(file); err == nil && bytes.HasSuffix(line, []byte("\x00wait\x00"+word+"\x00")) && bytes.HasPrefix(line, []byte("/box\x00")) {
				_, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid)
				return err
			}
		}
		return fmt.Errorf("no process waits with %s", word)
	})
	return pid
}

// ip is a pod's address.
func (s *square) ip(t *testing.T, name string) string {
	t.Helper()
	ns, pod, _ := strings.Cut(name, "/")
	p, err := s.client.CoreV1().Pods(s.namespaces[ns]).Get(bound(t), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Status.PodIP
}

// known is what the API has, as the reference wants it, and the pods' addresses.
func (s *square) known(ctx context.Context) (*program.Cluster, map[string]netip.Addr, error) {
	c := &program.Cluster{Namespaces: map[string]map[string]string{}}
	addresses := map[string]netip.Addr{}
	for short, name := range s.namespaces {
		ns, err := s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, err
		}
		c.Namespaces[name] = ns.Labels
		pods, err := s.client.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		for _, p := range pods.Items {
			a, err := netip.ParseAddr(p.Status.PodIP)
			if err != nil || s.hosts[short+"/"+p.Name] == nil {
				continue
			}
			addresses[short+"/"+p.Name] = a
			pod := &program.Pod{Namespace: name, Name: p.Name, Labels: p.Labels, Addresses: []netip.Addr{a}, Local: true}
			for _, port := range p.Spec.Containers[0].Ports {
				protocol, _ := program.Protocol(port.Protocol)
				pod.Ports = append(pod.Ports, program.Port{Name: port.Name, Protocol: protocol, Number: uint16(port.ContainerPort)})
			}
			c.Pods = append(c.Pods, pod)
		}
		policies, err := s.client.NetworkingV1().NetworkPolicies(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		for i := range policies.Items {
			c.Policies = append(c.Policies, &policies.Items[i])
		}
	}
	return c, addresses, nil
}

// holds waits until the node lets pass what the API's policies allow, and nothing else.
func (s *square) holds(t *testing.T, name string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		c, addresses, err := s.known(ctx)
		if err != nil {
			return err
		}
		var asks []truth.Ask
		for from := range s.hosts {
			for to := range s.hosts {
				for _, p := range []truth.Packet{{Protocol: program.TCP, Port: 80}, {Protocol: program.TCP, Port: 81}, {Protocol: program.UDP, Port: 80}, {Protocol: program.UDP, Port: 81}, {Protocol: program.SCTP, Port: 80}, {Protocol: program.SCTP, Port: 81}} {
					p.Source, p.Destination = addresses[from], addresses[to]
					asks = append(asks, truth.Ask{From: from, To: to, Packet: p, Want: truth.Allowed(c, p)})
				}
			}
		}
		if wrong := truth.Matrix(ctx, s.hosts, asks); len(wrong) > 0 {
			return fmt.Errorf("%s: %d of %d connections are wrong:\n%s", name, len(wrong), len(asks), strings.Join(wrong[:min(len(wrong), 10)], "\n"))
		}
		return nil
	})
}

// faults: rules that somebody deletes come back, and a plugin that is killed leaves them.
func (s *square) faults(t *testing.T) {
	if err := s.Network.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		c.DelTable(&nftables.Table{Name: policyTable, Family: nftables.TableFamilyINet})
		return c.Flush()
	}); err != nil {
		t.Fatal(err)
	}
	s.holds(t, "deleted by hand")
	before, _, err := s.pluginPid(bound(t), t, "networkpolicy")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.holds(t, "killed")
	eventually(t, func(ctx context.Context) error {
		pid, state, err := s.pluginPid(ctx, t, "networkpolicy")
		if err == nil && (pid == before || state != "Ready") {
			err = fmt.Errorf("the plugin is %s with pid %d, which was killed: %d", state, pid, before)
		}
		return err
	})
	s.apply(t, s.namespaces["y"], policyOf("after", "podSelector: {matchLabels: {pod: z}}, policyTypes: [Ingress, Egress], egress: [{to: [{podSelector: {}}]}]"))
	s.holds(t, "a policy after that")
	// What the plugin may not is refused to it as to anybody.
	for _, what := range []string{"secrets", "services", "nodes"} {
		r := s.try(t, "auth", "can-i", "list", what, "--as=system:pintle:plugin:networkpolicy")
		if strings.TrimSpace(r.stdout) != "no" {
			t.Errorf("the plugin may list %s: %+v", what, r)
		}
	}
}

// budget: a policy that is more than its namespace may have isolates its pods, an event says so,
// and other namespaces are enforced as always.
func (s *square) budget(t *testing.T) {
	for _, ns := range s.namespaces {
		s.kubectl(t, "-n", ns, "delete", "networkpolicies", "--all")
	}
	z := s.namespaces["z"]
	huge := truth.Policy("metadata: {name: huge}\nspec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}")
	huge.Namespace = z
	for port := int32(1001); port < 23_001; port += 2 {
		huge.Spec.Ingress[0].Ports = append(huge.Spec.Ingress[0].Ports, networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(port))})
	}
	if _, err := s.client.NetworkingV1().NetworkPolicies(z).Create(bound(t), huge, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		events, err := s.client.CoreV1().Events(z).List(ctx, metav1.ListOptions{FieldSelector: "reason=NetworkPolicyNotEnforced,involvedObject.name=huge"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, "namespace "+z+" needs more than its 10000 rules of the packet filter") {
				return nil
			}
		}
		return fmt.Errorf("no event says that the policy is not enforced: %+v", events.Items)
	})
	at := func(name string) netip.Addr { return netip.MustParseAddr(s.ip(t, name)) }
	if !truth.Probe(t.Context(), s.hosts["x/x"], s.hosts["z/y"], at("z/y"), program.TCP, 80, false) {
		t.Error("a policy that does not fit lets a connection pass")
	}
	s.apply(t, s.namespaces["x"], policyOf("own", "podSelector: {matchLabels: {pod: x}}"))
	eventually(t, func(ctx context.Context) error {
		if !truth.Probe(ctx, s.hosts["y/x"], s.hosts["x/x"], at("x/x"), program.TCP, 80, false) {
			return errors.New("a policy of another namespace is not enforced")
		}
		return nil
	})
	if !truth.Probe(t.Context(), s.hosts["y/x"], s.hosts["x/y"], at("x/y"), program.TCP, 80, true) {
		t.Error("what another namespace allows does not pass")
	}
}

// throughServices: a policy sees the pods at both ends of a connection through a cluster IP,
// and probes reach a pod that nobody may reach.
func (s *square) throughServices(t *testing.T) {
	x := s.namespaces["x"]
	s.apply(t, x, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, podSelector: {matchLabels: {pod: x}}}]}]")+`
---
apiVersion: v1
kind: Service
metadata: {name: x}
spec: {selector: {pod: x}, ports: [{port: 7000, targetPort: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec: {containers: [{name: c, image: `+box+`, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
`)
	s.awaitPod(t, x, "probed", isReady)
	at := netip.MustParseAddr(s.kubectl(t, "-n", x, "get", "service", "x", "-o", "jsonpath={.spec.clusterIP}"))
	for from, want := range map[string]bool{"y/x": true, "x/x": true, "x/y": false, "z/y": false} {
		eventually(t, func(ctx context.Context) error {
			if !truth.Probe(ctx, s.hosts[from], s.hosts["x/x"], at, program.TCP, 7000, want) {
				return fmt.Errorf("%s reaches the service: %t, want %t", from, !want, want)
			}
			return nil
		})
	}
}

// startingPods: a pod is isolated from the first instant, and has what it is allowed soon.
func (s *square) startingPods(t *testing.T) {
	y, z := s.namespaces["y"], s.namespaces["z"]
	s.kubectl(t, "-n", y, "delete", "networkpolicies", "--all")
	s.apply(t, z, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: `+box+`, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
`)
	web := s.awaitPod(t, z, "web", isReady).Status.PodIP
	quick := func(name, label, restart string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, labels: {quick: ` + label + `}}
spec: {restartPolicy: ` + restart + `, containers: [{name: c, image: ` + box + `, args: [get, "http://` + web + `:8080/"]}]}
---`
	}
	phase := func(name string, want corev1.PodPhase) {
		t.Helper()
		p := s.awaitPod(t, y, name, func(p *corev1.Pod) error {
			if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				return fmt.Errorf("pod %s is %s", name, p.Status.Phase)
			}
			return nil
		})
		if p.Status.Phase != want {
			t.Errorf("pod %s is %s, want %s", name, p.Status.Phase, want)
		}
	}
	s.apply(t, y, quick("free", "shut", "OnFailure"))
	phase("free", corev1.PodSucceeded)
	s.apply(t, y, policyOf("out", "podSelector: {matchLabels: {quick: shut}}, policyTypes: [Egress]"))
	s.holds(t, "before the pods start")
	var pods string
	for i := range 6 {
		pods += quick(fmt.Sprint("shut-", i), "shut", "Never")
	}
	s.apply(t, y, pods+quick("open", "open", "OnFailure"))
	phase("open", corev1.PodSucceeded)
	for i := range 6 {
		phase(fmt.Sprint("shut-", i), corev1.PodFailed)
	}
}
