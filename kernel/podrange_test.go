package kernel

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// A node whose configuration names no range registers, waits, and takes what its Node is given.
func TestGivenPodRange(t *testing.T) {
	cfg := &config.Config{API: config.API{ServiceCIDR: "10.96.0.0/16"}, Node: config.Node{Labels: map[string]string{"a": "b"}, RegisterWithTaints: []config.Taint{{Key: "mine", Effect: "NoSchedule"}}}}
	for name, c := range map[string]struct {
		there *corev1.Node
		later []string // given after a while
		want  string
		fault string
		waits int
	}{
		"given before":      {there: ranged0("a", "10.244.3.0/24", 1), want: "10.244.3.0/24"},
		"given later":       {later: []string{"10.244.4.0/24"}, want: "10.244.4.0/24", waits: 1},
		"there without one": {there: ranged0("a", "", 1), later: []string{"fd00::/64", "10.244.5.0/24"}, want: "10.244.5.0/24", waits: 1},
		"never":             {fault: "node a: no range of pod IPs: spec.podCIDRs is empty after 2m0s; enable the controller nodeipam with allocateNodeCIDRs, or set node.podCIDR", waits: 1},
		"another family":    {later: []string{"fd00::/64"}, fault: "none of its ranges of pod IPs, [fd00::/64], is of the family of api.serviceCIDR 10.96.0.0/16", waits: 1},
		"that of services":  {later: []string{"10.96.7.0/24"}, fault: "10.96.7.0/24, overlaps api.serviceCIDR 10.96.0.0/16", waits: 1},
		"nonsense":          {later: []string{"nonsense"}, fault: "none of its ranges", waits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if c.there != nil {
					if _, err := client.CoreV1().Nodes().Create(t.Context(), c.there, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if c.later != nil {
					time.AfterFunc(90*time.Second, func() {
						n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
						if err != nil {
							t.Error(err)
							return
						}
						n.Spec.PodCIDRs = c.later
						if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
				waits := 0
				got, err := givenPodRange(t.Context(), client, cfg, "a", func() { waits++ })
				if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) || waits != c.waits {
					t.Errorf("%q, %v, waited %d times", got, err, waits)
				}
				n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
				if err != nil || c.there == nil && (n.Labels["a"] != "b" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "mine") {
					t.Errorf("%+v, %v", n, err)
				}
			})
		})
	}
	// The end of the kernel ends the wait.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := givenPodRange(ctx, fake.NewClientset(), cfg, "a", cancel); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
