package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// givenRanges is a standalone cluster whose nodes are given their ranges of pod IPs.
func givenRanges(t *testing.T, name string) cluster.Options {
	t.Helper()
	config := strings.NewReplacer(
		"clusterCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/16", "clusterCIDR: 10.244.0.0/21, serviceCIDR: 10.244.0.0/23",
		"\nnode:\n  enabled: true\n", "\nnode:\n  enabled: true\n  podCIDR: \"\"\n  evictionHard: {nodefs.available: 2%}\n",
	).Replace(read(t, filepath.Join("..", "configs", "standalone.yaml")))
	return cluster.Options{
		Name: name, Config: write(t, filepath.Join(t.TempDir(), "pintle.yaml"), config),
		Set: []string{"plugins.directories=[" + filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins") + "]", "node.podCIDR="},
	}
}

const servingPod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeSelector: {WHERE}
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: BOX, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]
`

// serves makes a pod, and looks whether its address is in a range.
func (e *env) serves(t *testing.T, name, where, cidr string) {
	t.Helper()
	e.apply(t, "default", strings.NewReplacer("NAME", name, "WHERE", where, "BOX", box).Replace(servingPod))
	p := e.awaitPod(t, "default", name, isReady)
	if ip, err := netip.ParseAddr(p.Status.PodIP); err != nil || !netip.MustParsePrefix(cidr).Contains(ip) {
		t.Errorf("pod %s has the address %q, which is not in %s: %v", name, p.Status.PodIP, cidr, err)
	}
}

// TestNodeRangesOfTwoKernels: the nodes of two machines wait for their ranges, which the kernel gives that leads, and run
// pods in them.
func TestNodeRangesOfTwoKernels(t *testing.T) {
	t.Parallel()
	p, both := pair(t, "given", givenRanges(t, ""))
	e := both[0]
	e.awaitAccount(t, "default")
	given := map[string]string{}
	eventually(t, func(ctx context.Context) error {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		clear(given)
		for _, n := range nodes.Items {
			given[n.Name] = n.Spec.PodCIDR
		}
		a, b := given[p.NodeName(0)], given[p.NodeName(1)]
		if len(given) != 2 || a == "" || b == "" || a == b {
			return fmt.Errorf("ranges %v", given)
		}
		return nil
	})
	for i := range both {
		name := p.NodeName(i)
		e.serves(t, "on-"+name, "kubernetes.io/hostname: "+name, given[name])
	}
}

// TestNodeRanges: a real node whose configuration names no range of pod IPs waits for the one that the controller gives
// it, runs pods in it, and has it again after the kernel was killed. Other nodes get ranges beside it, and a range of
// services is given to none.
func TestNodeRanges(t *testing.T) {
	t.Parallel()
	start := crashable(t, givenRanges(t, "ranges"))
	e := start()
	e.awaitAccount(t, "default")
	ranges := func(ctx context.Context) map[string]string {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, n := range nodes.Items {
			all[n.Name] = strings.Join(n.Spec.PodCIDRs, ",")
		}
		return all
	}
	const first = "10.244.2.0/24" // after those of services
	var own string
	eventually(t, func(ctx context.Context) error {
		all := ranges(ctx)
		for name := range all {
			own = name
		}
		if len(all) != 1 || all[own] != first {
			return fmt.Errorf("ranges %v, want %s for one node", all, first)
		}
		return nil
	})
	e.serves(t, "a", "", first)
	// Nodes of other machines: one with a range of its own, and more than there are ranges.
	for i := range 6 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("other-", i)}}
		if i == 0 {
			n.Spec.PodCIDRs = []string{"10.244.3.0/24"}
		}
		if _, err := e.client.CoreV1().Nodes().Create(bound(t), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var waits string
	eventually(t, func(ctx context.Context) error {
		owners := map[string]string{}
		waits = ""
		for name, cidr := range ranges(ctx) {
			switch other, twice := owners[cidr]; {
			case cidr == "" && waits == "":
				waits = name
				continue
			case twice || cidr == "":
				return fmt.Errorf("%s and %s have the range %q", name, other, cidr)
			}
			owners[cidr] = name
		}
		if len(owners) != 6 || owners[first] != own {
			return fmt.Errorf("ranges %v", owners)
		}
		return nil
	})
	eventually(t, func(context.Context) error {
		told := e.kubectl(t, "get", "events", "-A", "--field-selector=reason=CIDRNotAvailable", "-o", "jsonpath={.items[0].message}")
		if want := "Node " + waits + " status is now: CIDRNotAvailable"; told != want {
			return fmt.Errorf("told %q, want %q", told, want)
		}
		return nil
	})
	e.kubectl(t, "delete", "node", "other-0")
	eventually(t, func(ctx context.Context) error {
		if have := ranges(ctx)[waits]; have != "10.244.3.0/24" {
			return fmt.Errorf("%s has the range %q", waits, have)
		}
		return nil
	})
	before := ranges(bound(t))
	e.Kill()
	e = start()
	e.serves(t, "a", "", first)
	e.serves(t, "b", "", first)
	if after := ranges(bound(t)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("ranges %v, before the kernel was killed %v", after, before)
	}
}
