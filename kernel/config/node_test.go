package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNodeSettings: what is wrong with the node's settings is said with its line, and what is right.
func TestNodeSettings(t *testing.T) {
	for _, c := range []struct{ node, want string }{
		{"clusterDNS: [10.96.0.10, dns]", `n.yaml:4: node.clusterDNS[1]: "dns" is not an IP address`},
		{"kubeReserved: {cpu: 100m, gpu: 1}", "n.yaml:4: node.kubeReserved.gpu: can not be reserved; known here: cpu, memory"},
		{"kubeReserved: {memory: -1Gi}", `node.kubeReserved.memory: "-1Gi" is not an amount`},
		{"systemReserved: {memory: lots}", `node.systemReserved.memory: "lots" is not an amount`},
		{"systemReserved: {memory: 1Gi, memory: 2Gi}", "node.systemReserved.memory: key is given twice"},
		{"systemReserved: [memory]", "node.systemReserved: want a group of keys, not a list"},
		{"evictionHard: {memory.free: 100Mi}", "node.evictionHard.memory.free: is no signal of this node"},
		{"evictionHard: {nodefs.available: 110%}", `"110%" is not a percentage`},
		{"evictionHard: {nodefs.available: -5%}", `"-5%" is not a percentage`},
		{"evictionHard: {nodefs.available: NaN%}", `"NaN%" is not a percentage`},
		{"evictionHard: {nodefs.available: a bit}", `"a bit" is not an amount`},
		{"imageGCHighThresholdPercent: 70", "node.imageGCLowThresholdPercent: 80 is not below imageGCHighThresholdPercent 70"},
		{"imageGCHighThresholdPercent: 101", "node.imageGCHighThresholdPercent: 101 is out of range"},
		{"{dns: a, proxies: [b, a]}", `node.dns: "a" is among node.proxies, too`},
		{"{networkPolicy: a, proxies: [b, a]}", `node.networkPolicy: "a" is named by node.proxies or node.dns, too`},
		{"{networkPolicy: a, dns: a}", `node.networkPolicy: "a" is named by node.proxies or node.dns, too`},
		{"{networkPolicy: a, proxies: [ipvs, b]}", `node.networkPolicy: "a" does not see what the proxy ipvs of node.proxies sends to pods`},
		{"{announcer: a, proxies: [b, a]}", `node.announcer: "a" is named by node.proxies, node.dns or node.networkPolicy, too`},
		{"{announcer: a, networkPolicy: a}", `node.announcer: "a" is named by node.proxies, node.dns or node.networkPolicy, too`},
		{"{network: a}", `node.clusterCIDRs: is empty; node.network "a" needs the ranges`},
		{"{network: a, clusterCIDRs: [10.1.0.0/16], podCIDR: 10.244.0.0/24}", "node.podCIDR: 10.244.0.0/24 is not within node.clusterCIDRs [10.1.0.0/16]"},
		{"{network: a, clusterCIDRs: [10.1.0.0/16], podCIDR: 10.0.0.0/8}", "node.podCIDR: 10.0.0.0/8 is not within"},
		{"maxParallelImagePulls: 2", "node.maxParallelImagePulls: 2 cannot be larger than 1 unless serializeImagePulls is false"},
		{"registerWithTaints: [{key: a}]", `node.registerWithTaints[0]: key "effect" is missing`},
		{"registerWithTaints: [{key: a, effect: Never}]", `"Never" is not one of NoSchedule, PreferNoSchedule, NoExecute`},
		{"registerWithTaints: [{key: a b, effect: NoExecute}]", `node.registerWithTaints[0].key: "a b"`},
		{"registerWithTaints: [{key: a, value: 1, effect: NoExecute}, {key: a, effect: NoExecute}]", "taint a:NoExecute is listed twice"},
		{"enforceNodeAllocatable: [pods, none]", "names none beside others"},
		{"enforceNodeAllocatable: [system-reserved]", `"system-reserved" is not one of pods, none`},
		{"crashLoopBackOff: {maxContainerRestartPeriod: 10m}", "node.crashLoopBackOff.maxContainerRestartPeriod: 10m is out of range; want 1s to 5m"},
		{"cgroupRoot: pods", `"pods" is not an absolute path`},
		{"cgroupRoot: /a/../..", `"/a/../.." is not an absolute path`},
		{"containerLogMaxFiles: 1", "node.containerLogMaxFiles: 1 is out of range"},
		{"nodeStatusUpdateFreqency: 1s", `unknown key; did you mean "nodeStatusUpdateFrequency"?`},
	} {
		file := filepath.Join(t.TempDir(), "n.yaml")
		text := "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\nnode:\n  " + c.node + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Source{File: file}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.node, err, c.want)
		}
	}
}

// TestNodeDefaults: a map of the file replaces the default one, and what is live is taken over.
func TestNodeDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n.yaml")
	text := "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\nnode:\n  evictionHard: {pid.available: \"500\"}\n  containerLogMaxFiles: 9\n  maxPods: 3\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if n := cfg.Node; len(n.EvictionHard) != 1 || n.EvictionHard["pid.available"] != "500" || n.ImageGCHigh != 85 || !n.SerializeImagePulls || n.NodeStatusUpdateFrequency != 10*time.Second {
		t.Errorf("%+v", n)
	}
	merged := Default().Node.WithLive(cfg.Node)
	if merged.ContainerLogMaxFiles != 9 || merged.EvictionHard["pid.available"] != "500" || merged.MaxPods != 110 {
		t.Errorf("live: %+v", merged)
	}
}
