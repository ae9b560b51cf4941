package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// web makes the pod on a machine and returns its address.
func (c *cell) web(t *testing.T, machine int) string {
	t.Helper()
	c.apply(t, "default", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: on-%[1]s, labels: {app: web, on: %[1]s}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: %[2]s, args: [serve], ports: [{containerPort: 8080}], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}
`, c.node(machine), box))
	return c.awaitPod(t, "default", "on-"+c.node(machine), isReady).Status.PodIP
}

// reaches waits until the pod on a machine has an answer from an address, which says who answers
// and who asked.
func (c *cell) reaches(t *testing.T, from int, address string, check func(host, client string) error) {
	t.Helper()
	eventually(t, func(context.Context) error {
		r := c.try(t, "-n", "default", "exec", "on-"+c.node(from), "--", "/box", "get", "http://"+address+":8080/")
		answer, ok := strings.CutPrefix(r.stdout, "200\n")
		if r.err != nil || !ok {
			return fmt.Errorf("%s from the pod on %s: %v: %s%s", address, c.node(from), r.err, r.stdout, r.stderr)
		}
		host, client, _ := strings.Cut(strings.TrimSpace(answer), " ")
		client, _, _ = net.SplitHostPort(client)
		return check(host, client)
	})
}

// unreached waits until it has none.
func (c *cell) unreached(t *testing.T, from int, address string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if r := c.try(t, "-n", "default", "exec", "on-"+c.node(from), "--", "/box", "get", "http://"+address+":8080/"); r.err == nil {
			return fmt.Errorf("%s answers the pod on %s: %s", address, c.node(from), r.stdout)
		}
		return nil
	})
}

// pairs: the pods of all machines reach each other's addresses, and are known by their own.
func (c *cell) pairs(t *testing.T, when string, ips []string) {
	t.Helper()
	for from := range ips {
		for to, ip := range ips {
			c.reaches(t, from, ip, func(host, client string) error {
				if host != "on-"+c.node(to) || client != ips[from] {
					return fmt.Errorf("%s: from %s to %s: %s answers, and sees %s; want %s", when, ips[from], ip, host, client, ips[from])
				}
				return nil
			})
		}
	}
}

// podRoutes are the routes to pods of other machines that a machine has, by their ranges.
func (c *cell) podRoutes(t *testing.T, machine int) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := c.lan.Networks[machine].Do(func() error {
		list, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: 90}, netlink.RT_FILTER_PROTOCOL)
		for _, r := range list {
			out[r.Dst.String()] = r.Gw.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPodNetwork: pods of three machines, of which one has the kernel, are one network: they
// reach each other by their addresses, by services and by names, on all machines, and policies
// hold between them. A machine that is cut off comes back, and one that comes with another
// address. A Node that claims what is another's gets nothing.
func TestPodNetwork(t *testing.T) {
	t.Parallel()
	c := newCell(t, "podnet", 2)
	argument := c.argument(t)
	for i := range 2 {
		c.join(t, i+1, argument)
	}
	nodes := c.ready(t, 3)
	const ns = "default"
	c.awaitAccount(t, ns)
	ips := make([]string, 3)
	c.apply(t, ns, `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 8080}]
`)
	for i := range ips {
		ips[i] = c.web(t, i)
	}
	c.pairs(t, "at first", ips)
	for name := range nodes {
		eventually(t, func(ctx context.Context) error {
			n, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, cond := range n.Status.Conditions {
				if cond.Type == corev1.NodeNetworkUnavailable && cond.Status == corev1.ConditionFalse && cond.Reason == "RouteCreated" {
					return nil
				}
			}
			return fmt.Errorf("node %s has no condition of its network: %v", name, n.Status.Conditions)
		})
	}
	t.Run("services and names", func(t *testing.T) { // by the service's address, each machine's pod reaches all
		for from := range ips {
			seen := map[string]bool{}
			for _, name := range []string{"web", "web.default.svc.cluster.local"} {
				c.reaches(t, from, name, func(host, client string) error {
					if seen[host] = true; len(seen) < 3 {
						return fmt.Errorf("from %s by %s only %v answered", c.node(from), name, seen)
					}
					return nil
				})
			}
		}
	})
	t.Run("policies", func(t *testing.T) { c.policiesAcross(t, ips) })
	t.Run("hostile nodes", func(t *testing.T) { c.hostileNodes(t, ips, nodes[c.node(2)].Spec.PodCIDR) })
	t.Run("a cable", func(t *testing.T) {
		if err := c.lan.Cut(2, true); err != nil {
			t.Fatal(err)
		}
		c.unreached(t, 0, ips[2])
		c.unreached(t, 1, ips[2])
		c.pairs(t, "while another is cut off", ips[:2])
		if err := c.lan.Cut(2, false); err != nil {
			t.Fatal(err)
		}
		c.ready(t, 3)
		c.pairs(t, "when it is back", ips)
	})
	t.Run("another address", func(t *testing.T) {
		first := c.machines[0]
		data := first.Data
		again := c.memberOptions(1, "")
		again.Data = data
		c.kubectl(t, "delete", "pod", "on-"+c.node(1), "--timeout=110s")
		stopKeeping(t, first)
		const moved = "192.0.2.77"
		if err := c.lan.Move(1, moved); err != nil {
			t.Fatal(err)
		}
		m, err := launch(again)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			m.stop(t)
			if err := os.RemoveAll(data); err != nil {
				t.Error(err)
			}
		})
		c.ready(t, 3)
		eventually(t, func(context.Context) error {
			for _, machine := range []int{0, 2} {
				if got := c.podRoutes(t, machine)[nodes[c.node(1)].Spec.PodCIDR]; got != moved {
					return fmt.Errorf("%s has the route by %q, want %s", c.node(machine), got, moved)
				}
			}
			return nil
		})
		ips[1] = c.web(t, 1)
		c.pairs(t, "from another address", ips)
		c.kubectl(t, "delete", "pod", "on-"+c.node(1), "--timeout=110s")
	})
	c.kubectl(t, "delete", "pod", "on-"+c.node(2), "--timeout=110s")
	c.machines[1].stop(t) // says what it leaves behind
	c.kubectl(t, "delete", "node", c.node(2))
	eventually(t, func(context.Context) error {
		if routes := c.podRoutes(t, 0); len(routes) != 1 {
			return fmt.Errorf("routes after a machine left: %v", routes)
		}
		return nil
	})
}

// policiesAcross: a policy tells pods of other machines apart, by where it lets in and by where it lets out.
func (c *cell) policiesAcross(t *testing.T, ips []string) {
	const ns = "default"
	// Into the pod of a machine that joined comes who is on the other machine that joined.
	c.apply(t, ns, policyOf("in", fmt.Sprintf("podSelector: {matchLabels: {on: %s}}, ingress: [{from: [{podSelector: {matchLabels: {on: %s}}}]}]", c.node(1), c.node(2))))
	c.unreached(t, 0, ips[1])
	c.reaches(t, 2, ips[1], func(string, string) error { return nil })
	c.kubectl(t, "-n", ns, "delete", "networkpolicy", "in")
	// Out of a machine that joined, to the kernel's machine alone.
	c.apply(t, ns, policyOf("out", fmt.Sprintf("podSelector: {matchLabels: {on: %s}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {on: %s}}}]}]", c.node(2), c.node(0))))
	c.unreached(t, 2, ips[1])
	c.reaches(t, 2, ips[0], func(string, string) error { return nil })
	c.kubectl(t, "-n", ns, "delete", "networkpolicy", "out")
	c.pairs(t, "without policies", ips)
}

// hostileNodes: Nodes that say they have what is another's change no routes, and events say
// why. theirs is the range of machine 2.
func (c *cell) hostileNodes(t *testing.T, ips []string, theirs string) {
	before := c.podRoutes(t, 0)
	for name, cidr := range map[string]string{"thief": theirs, "outside": "192.0.2.0/24"} {
		ctx := bound(t)
		if _, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		status := fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": %q}]}}`, c.lan.IP(1))
		if _, err := c.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"thief": "which had it before", "outside": "is outside of the cluster's"}[name]
		for machine := range 3 {
			want := want
			if name == "thief" && machine == 2 {
				want = theirs + " of this node"
			}
			eventually(t, func(ctx context.Context) error {
				list, err := c.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
				if err != nil {
					return err
				}
				for _, e := range list.Items {
					if e.Reason == "FailedToCreateRoute" && strings.Contains(e.Message, "from node "+c.node(machine)) && strings.Contains(e.Message, want) {
						return nil
					}
				}
				return fmt.Errorf("%s says nothing of %s: %d events", c.node(machine), name, len(list.Items))
			})
		}
	}
	if after := c.podRoutes(t, 0); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("routes were %v, and are %v", before, after)
	}
	c.pairs(t, "beside hostile nodes", ips)
	c.kubectl(t, "delete", "node", "thief", "outside")
}
