package kernel

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/config"
)

// checkPodRange refuses a range of pod IPs that another node of the cluster has too, in part or whole: two pods would
// have one address, and services would send traffic to the wrong one.
func checkPodRange(ctx context.Context, client kubernetes.Interface, cfg *config.Config, name string) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("node %s: compare its range of pod IPs with other nodes': %w", name, err)
	}
	own, err := netip.ParsePrefix(cfg.Node.PodCIDR)
	if err != nil {
		return fmt.Errorf("node %s: node.podCIDR: %w", name, err)
	}
	return overlapping(own, name, nodes.Items)
}

func overlapping(own netip.Prefix, name string, nodes []corev1.Node) error {
	var self *corev1.Node
	for i := range nodes {
		if nodes[i].Name == name {
			self = &nodes[i]
		}
	}
	for i := range nodes {
		other := &nodes[i]
		// Of two that registered at once the later one gives way, and only that one.
		if other.Name == name || self != nil && before(self, other) {
			continue
		}
		for _, text := range append([]string{other.Spec.PodCIDR}, other.Spec.PodCIDRs...) {
			if cidr, err := netip.ParsePrefix(text); err == nil && cidr.Overlaps(own) {
				return fmt.Errorf("node %s: its range of pod IPs, node.podCIDR %s, overlaps %s of node %s; "+
					"give each node a range of its own, or delete Node %s if that machine is gone", name, own, cidr, other.Name, other.Name)
			}
		}
	}
	return nil
}

// before orders nodes by their registration.
func before(a, b *corev1.Node) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
