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

// TestNodeRanges: a real node whose configuration names no range of pod IPs waits for the one that the controller gives
// it, runs pods in it, and has it again after the kernel was killed. Other nodes get ranges beside it, and a range of
// services is given to none.
func TestNodeRanges(t *testing.T) {
	t.Parallel()
	config := strings.NewReplacer(
		"      root-ca: {", "      nodeipam: {allocateNodeCIDRs: true, clusterCIDR: 10.244.0.0/21, serviceCIDR: 10.244.0.0/23}\n      root-ca: {",
		"  - nodelifecycle\n", "  - nodeipam\n  - nodelifecycle\n",
		"\nnode:\n", "\nnode:\n  podCIDR: \"\"\n  evictionHard: {nodefs.available: 2%}\n",
	).Replace(read(t, filepath.Join("..", "configs", "standalone.yaml")))
	start := crashable(t, cluster.Options{
		Name: "ranges", Config: write(t, filepath.Join(t.TempDir(), "pintle.yaml"), config),
		Set: []string{"plugins.directories=[" + filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins") + "]"},
	})
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
	for name, cidr := range ranges(bound(t)) {
		if own = name; cidr != first {
			t.Fatalf("node %s has the range %q", name, cidr)
		}
	}
	pod := strings.ReplaceAll("apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: "+box+", args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}\n", "NAME", "a")
	e.apply(t, "default", pod)
	within := func(name string) {
		t.Helper()
		p := e.awaitPod(t, "default", name, isReady)
		if ip, err := netip.ParseAddr(p.Status.PodIP); err != nil || !netip.MustParsePrefix(first).Contains(ip) {
			t.Errorf("pod %s has the address %q, %v", name, p.Status.PodIP, err)
		}
	}
	within("a")
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
	within("a")
	e.apply(t, "default", strings.Replace(pod, "{name: a}", "{name: b}", 1))
	within("b")
	if after := ranges(bound(t)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("ranges %v, before the kernel was killed %v", after, before)
	}
}
