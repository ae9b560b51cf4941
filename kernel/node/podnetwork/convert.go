package podnetwork

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/hollow"
	"pintle.dev/pintle/sdk/network"
)

// nodeOf is what a network gets of a Node; nil: its pods are on no machine.
func nodeOf(n *corev1.Node) *network.Node {
	if _, simulated := n.Labels[hollow.Label]; simulated {
		return nil
	}
	out := &network.Node{Name: n.Name, Created: n.CreationTimestamp.Unix(), PodCidrs: n.Spec.PodCIDRs}
	if key := n.Annotations[KeyAnnotation]; len(key) <= mostKey {
		out.PublicKey = key
	}
	if len(out.PodCidrs) == 0 && n.Spec.PodCIDR != "" {
		out.PodCidrs = []string{n.Spec.PodCIDR}
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out.Addresses = append(out.Addresses, a.Address)
		}
	}
	return out
}

// difference is what leads from the nodes before to those of now; nil: nothing is to be done.
func difference(before, now map[string]*network.Node, generation uint64, reset bool) *network.Diff {
	diff := &network.Diff{Generation: generation, Reset_: reset}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if reset || !proto.Equal(before[name], now[name]) {
			diff.Set = append(diff.Set, now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !reset && now[name] == nil {
			diff.Removed = append(diff.Removed, name)
		}
	}
	if !reset && len(diff.Set) == 0 && len(diff.Removed) == 0 {
		return nil
	}
	return diff
}
