package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/features"
)

// Names that maps of the node's configuration know.
var (
	reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	// evictionSignals are those of the kubelet that this node measures.
	evictionSignals = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
)

// DefaultEvictionHard are the kubelet's thresholds.
func DefaultEvictionHard() map[string]string {
	return map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
		"imagefs.available": "15%", "imagefs.inodesFree": "5%",
	}
}

// NodeKeys are the keys of the group node.
func NodeKeys() []string {
	var keys []string
	for _, f := range fieldsOf(reflect.TypeFor[Node]()) {
		keys = append(keys, f.key)
	}
	return keys
}

// checkEntry returns what is wrong with an entry of a map of a format, or "".
func checkEntry(format, key, value string) string {
	switch format {
	case "features":
		if err := features.Check(key, value); err != nil {
			return err.Error()
		}
	case "runtimeConfig":
		if n := strings.Count(key, "/"); n < 1 || n > 2 {
			return "is none of group/version, group/version/resource, api/all, api/ga, api/beta, api/alpha"
		}
		if value != "true" && value != "false" {
			return fmt.Sprintf("%q is not true or false", value)
		}
	case "reserved":
		if !slices.Contains(reservable, key) {
			return "can not be reserved; known here: " + strings.Join(reservable, ", ")
		}
		if q, err := resource.ParseQuantity(value); err != nil || q.Sign() < 0 {
			return fmt.Sprintf("%q is not an amount such as 100m (cpu), 512Mi (memory) or 1000 (pid)", value)
		}
	case "eviction":
		if !slices.Contains(evictionSignals, key) {
			return "is no signal of this node; known here: " + strings.Join(evictionSignals, ", ")
		}
		if text, ok := strings.CutSuffix(value, "%"); ok {
			if p, err := strconv.ParseFloat(text, 64); err != nil || !(p >= 0 && p <= 100) {
				return fmt.Sprintf("%q is not a percentage from 0%% to 100%%", value)
			}
			return ""
		}
		if q, err := resource.ParseQuantity(value); err != nil || q.Sign() < 0 {
			return fmt.Sprintf("%q is not an amount such as 100Mi or a percentage such as 10%%", value)
		}
	}
	return ""
}

// checkNode finds what only several keys of the node together make wrong.
func checkNode(n *Node, add func(key, format string, args ...any)) {
	if n.ImageGCLow >= n.ImageGCHigh {
		add("imageGCLowThresholdPercent", "%d is not below imageGCHighThresholdPercent %d; want it lower", n.ImageGCLow, n.ImageGCHigh)
	}
	if n.SerializeImagePulls && n.MaxParallelImagePulls > 1 {
		add("maxParallelImagePulls", "%d cannot be larger than 1 unless serializeImagePulls is false", n.MaxParallelImagePulls)
	}
	if slices.Contains(n.EnforceNodeAllocatable, "none") && len(n.EnforceNodeAllocatable) > 1 {
		add("enforceNodeAllocatable", "names none beside others; want one of both")
	}
	if n.DNS != "" && slices.Contains(n.Proxies, n.DNS) {
		add("dns", "%q is among node.proxies, too; a DNS server programs no services: take it out there", n.DNS)
	}
	if n.Policies != "" && (slices.Contains(n.Proxies, n.Policies) || n.Policies == n.DNS) {
		add("networkPolicy", "%q is named by node.proxies or node.dns, too; what enforces policies serves nothing: take it out there", n.Policies)
	}
	if n.Policies != "" && slices.Contains(n.Proxies, "ipvs") {
		// IPVS sends packets on as if the machine itself had made them, which rules for what is
		// forwarded do not see.
		add("networkPolicy", "%q does not see what the proxy ipvs of node.proxies sends to pods: take nftables or iptables, or set node.networkPolicy to nothing and go without policies", n.Policies)
	}
	if n.Announcer != "" && (slices.Contains(n.Proxies, n.Announcer) || n.Announcer == n.DNS || n.Announcer == n.Policies) {
		add("announcer", "%q is named by node.proxies, node.dns or node.networkPolicy, too; what announces addresses serves nothing: take it out there", n.Announcer)
	}
	checkNetwork(n, add)
	seen := map[string]bool{}
	for _, t := range n.RegisterWithTaints {
		if id := t.Key + ":" + t.Effect; seen[id] {
			add("registerWithTaints", "taint %s is listed twice; keep one", id)
		} else {
			seen[id] = true
		}
	}
}

// checkNetwork finds a network without the ranges of all pods, and a range of this node's that is outside of
// them.
func checkNetwork(n *Node, add func(key, format string, args ...any)) {
	if n.Network == "" {
		return
	}
	if len(n.ClusterCIDRs) == 0 {
		add("clusterCIDRs", "is empty; node.network %q needs the ranges of the pod IPs of all nodes, such as [10.244.0.0/16]", n.Network)
		return
	}
	ranges, err := dualstack.Ranges(n.PodCIDR)
	if err != nil {
		return // it is given later, or said elsewhere
	}
	for _, own := range ranges {
		if !slices.ContainsFunc(n.ClusterCIDRs, func(text string) bool {
			all, err := netip.ParsePrefix(text)
			return err != nil || all.Bits() <= own.Bits() && all.Contains(own.Addr())
		}) {
			add("podCIDR", "%s is not within node.clusterCIDRs %v; want a part of one of them", own, n.ClusterCIDRs)
		}
	}
}

// WithLive is the configuration with what changes without a restart as next has it.
func (n Node) WithLive(next Node) Node {
	to, from := reflect.ValueOf(&n).Elem(), reflect.ValueOf(next)
	for _, f := range fieldsOf(to.Type()) {
		if f.live {
			to.Field(f.index).Set(from.Field(f.index))
		}
	}
	return n
}
