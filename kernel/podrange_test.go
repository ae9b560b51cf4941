package kernel

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/kernel/config"
)

func ranged0(name, cidr string, registered int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(registered, 0)}}
	if cidr != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	}
	return n
}

// TestPodRanges: D9: a node whose range another node has is refused, by name of both.
func TestPodRanges(t *testing.T) {
	for _, c := range []struct {
		own   string
		nodes []*corev1.Node
		fault string
	}{
		{"10.244.0.0/24", nil, ""},
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 1)}, ""}, // itself, as at a restart
		{"10.244.0.0/24", []*corev1.Node{ranged0("b", "10.244.1.0/24", 1), ranged0("c", "", 1), ranged0("d", "nonsense", 1)}, ""},
		{"10.244.0.0/24", []*corev1.Node{ranged0("b", "10.244.0.0/24", 1)}, "node a: its range of pod IPs, node.podCIDR 10.244.0.0/24, overlaps 10.244.0.0/24 of node b"},
		{"10.244.0.0/16", []*corev1.Node{ranged0("b", "10.244.7.0/24", 1)}, "overlaps 10.244.7.0/24 of node b"},
		{"10.244.7.0/24", []*corev1.Node{ranged0("b", "10.244.0.0/16", 1)}, "overlaps 10.244.0.0/16 of node b"},
		// Of two the later one gives way.
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 1), ranged0("b", "10.244.0.0/24", 2)}, ""},
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 2), ranged0("b", "10.244.0.0/24", 1)}, "of node b"},
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 1), ranged0("b", "10.244.0.0/24", 1)}, ""},
	} {
		client := fake.NewClientset()
		for _, n := range c.nodes {
			if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		err := checkPodRange(t.Context(), client, &config.Config{Node: config.Node{PodCIDR: c.own}}, "a")
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s beside %v: %v, want %q", c.own, c.nodes, err, c.fault)
		}
	}
	// The other one of the last pair is the one that goes.
	both := []corev1.Node{*ranged0("a", "10.244.0.0/24", 1), *ranged0("b", "10.244.0.0/24", 1)}
	if err := overlapping(netip.MustParsePrefix("10.244.0.0/24"), "b", both); err == nil {
		t.Error("two nodes with one range go on")
	}
}
