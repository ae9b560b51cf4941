package podtopologyspread

import (
	"testing"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

var foo = map[string]string{"foo": ""}

// zones are nodes a, b in zone1 and x, y in zone2, with so many pods that match on each.
func zones(a, b, x, y int) *plugintest.Cluster {
	c := plugintest.NewCluster()
	for i, n := range []struct {
		name, zone string
		pods       int
	}{{"node-a", "zone1", a}, {"node-b", "zone1", b}, {"node-x", "zone2", x}, {"node-y", "zone2", y}} {
		c.Node(n.name, plugintest.Label("zone", n.zone), plugintest.Label("node", n.name))
		for k := range n.pods {
			c.Pod(n.name, &plugintest.Pod{Namespace: "d", Uid: string(rune('a'+i)) + string(rune('0'+k)), Labels: foo})
		}
	}
	return c
}

func constraint(skew int32, key string) *contractv1.TopologySpreadConstraint {
	return &contractv1.TopologySpreadConstraint{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: "DoNotSchedule", HasSelector: true, Selector: &contractv1.Selector{MatchLabels: foo}}
}

func pod(constraints ...*contractv1.TopologySpreadConstraint) *plugintest.Pod {
	return &plugintest.Pod{Namespace: "d", Labels: foo, TopologySpread: constraints}
}

func with(c *contractv1.TopologySpreadConstraint, change func(*contractv1.TopologySpreadConstraint)) *contractv1.TopologySpreadConstraint {
	change(c)
	return c
}

func TestFilter(t *testing.T) {
	verdicts := func(a, b, x, y string) plugintest.Verdicts {
		return plugintest.Verdicts{"node-a": a, "node-b": b, "node-x": x, "node-y": y}
	}
	const ok, no = plugintest.Fits, Reason
	other := pod(constraint(1, "zone"))
	other.Labels = map[string]string{"bar": ""}
	elsewhere := pod(constraint(1, "zone"))
	elsewhere.Namespace = "e"
	soft := constraint(1, "zone")
	soft.WhenUnsatisfiable = "ScheduleAnyway"
	limited := pod(with(constraint(1, "node"), func(c *contractv1.TopologySpreadConstraint) { c.NodeAffinityPolicy = "Honor" }))
	limited.NodeSelector = map[string]string{"zone": "zone2"}
	ignoring := pod(with(constraint(1, "node"), func(c *contractv1.TopologySpreadConstraint) { c.NodeAffinityPolicy = "Ignore" }))
	ignoring.NodeSelector = map[string]string{"zone": "zone2"}
	keyed := pod(with(constraint(1, "zone"), func(c *contractv1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"hash"} }))
	keyed.Labels = map[string]string{"foo": "", "hash": "1"}
	for _, c := range []struct {
		name    string
		cluster *plugintest.Cluster
		pod     *plugintest.Pod
		want    plugintest.Verdicts
	}{
		{"no constraints", zones(3, 0, 0, 0), pod(), verdicts(ok, ok, ok, ok)},
		{"no existing pods", zones(0, 0, 0, 0), pod(constraint(1, "zone")), verdicts(ok, ok, ok, ok)},
		{"pods spread across zones as 3/3, all nodes fit", zones(2, 1, 0, 3), pod(constraint(1, "zone")), verdicts(ok, ok, ok, ok)},
		{"pods spread across zones as 1/2 due to absence of label 'zone' on node-b", zones(1, 0, 2, 0).Node("bare", plugintest.Label("node", "bare")), pod(constraint(1, "zone")),
			plugintest.Verdicts{"node-a": ok, "node-b": ok, "node-x": no, "node-y": no, "bare": ReasonLabel}},
		{"pod cannot be scheduled as all nodes don't have label 'rack'", zones(0, 0, 0, 0), pod(constraint(1, "rack")), verdicts(ReasonLabel, ReasonLabel, ReasonLabel, ReasonLabel)},
		{"pods spread across nodes as 2/1/0/3, only node-x fits", zones(2, 1, 0, 3), pod(constraint(1, "node")), verdicts(no, no, ok, no)},
		{"pods spread across nodes as 2/1/0/3, maxSkew is 2, node-b and node-x fit", zones(2, 1, 0, 3), pod(constraint(2, "node")), verdicts(no, ok, ok, no)},
		{"pods spread across nodes as 2/1/0/3, but pod doesn't match itself", zones(2, 1, 0, 3), with2(pod(constraint(1, "node")), "bar"), verdicts(no, ok, ok, no)},
		{"incoming pod has no self-match, and zones may differ by one", zones(1, 0, 0, 0), other, verdicts(ok, ok, ok, ok)},
		{"two Constraints on zone and node, spreads = [3/3, 2/1/0/3]", zones(2, 1, 0, 3), pod(constraint(1, "zone"), constraint(1, "node")), verdicts(no, no, ok, no)},
		{"pods of another namespace do not count", zones(2, 1, 0, 0), elsewhere, verdicts(ok, ok, ok, ok)},
		{"a soft constraint refuses nobody", zones(5, 0, 0, 0), pod(soft), verdicts(ok, ok, ok, ok)},
		{"pods spread across zones as 2/2, minDomains 3 takes the least as 0", zones(1, 1, 1, 1), pod(with(constraint(2, "zone"), func(c *contractv1.TopologySpreadConstraint) { c.MinDomains = 3 })), verdicts(no, no, no, no)},
		{"nodes that the node affinity leaves out do not count", zones(0, 0, 1, 1), limited, verdicts(ok, ok, ok, ok)},
		{"but where the policy says Ignore", zones(0, 0, 1, 1), ignoring, verdicts(ok, ok, no, no)},
		{"matchLabelKeys: only pods with the same value count", zones(3, 0, 0, 0), keyed, verdicts(ok, ok, ok, ok)},
		{"an empty selector counts no pod", zones(3, 0, 0, 0), pod(with(constraint(1, "zone"), func(c *contractv1.TopologySpreadConstraint) { c.Selector = &contractv1.Selector{} })), verdicts(ok, ok, ok, ok)},
		{"no selector counts no pod", zones(3, 0, 0, 0), pod(with(constraint(1, "zone"), func(c *contractv1.TopologySpreadConstraint) { c.HasSelector, c.Selector = false, nil })), verdicts(ok, ok, ok, ok)},
		{"terminating pods should be excluded", zones(1, 0, 0, 0).Pod("node-a", &plugintest.Pod{Namespace: "d", Uid: "t", Labels: foo, Terminating: true}), pod(constraint(2, "zone")), verdicts(ok, ok, ok, ok)},
	} {
		t.Run(c.name, func(t *testing.T) { c.cluster.WantVerdicts(t, New(), c.pod, c.want) })
	}
}

func with2(p *plugintest.Pod, label string) *plugintest.Pod {
	p.Labels = map[string]string{label: ""}
	return p
}

// NodeTaintsPolicy Honor leaves out the domains of nodes whose taints the pod does
// not tolerate.
func TestTaintsPolicy(t *testing.T) {
	cluster := func() *plugintest.Cluster {
		return zones(1, 0, 1, 0).Node("tainted", plugintest.Label("zone", "zone3"), plugintest.Taint("k", "v", "NoSchedule"))
	}
	ignore, honor := constraint(1, "zone"), constraint(1, "zone")
	honor.NodeTaintsPolicy = "Honor"
	cluster().WantVerdicts(t, New(), pod(ignore), plugintest.Verdicts{"node-a": Reason, "node-b": Reason, "node-x": Reason, "node-y": Reason, "tainted": ""})
	cluster().WantVerdicts(t, New(), pod(honor), plugintest.Verdicts{"node-a": "", "node-b": "", "node-x": "", "node-y": "", "tainted": ""})
}

// Default constraints count the pods of the same service.
func TestDefaults(t *testing.T) {
	const config = `{"defaultingType":"List","defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}`
	configured := func() sdk.Predicate {
		p := New()
		if err := p.Configure([]byte(config)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	service := &contractv1.Object{Key: &contractv1.ObjectKey{Kind: "Service", Namespace: "d", Name: "s"}, HasSelector: true, Selector: &contractv1.Selector{MatchLabels: foo}}
	all := plugintest.Verdicts{"node-a": "", "node-b": "", "node-x": "", "node-y": ""}
	zones(2, 0, 0, 0).WantVerdicts(t, configured(), pod(), all)
	zones(2, 0, 0, 0).Object(service).WantVerdicts(t, configured(), pod(), plugintest.Verdicts{"node-a": Reason, "node-b": Reason, "node-x": "", "node-y": ""})
	zones(2, 0, 0, 0).Object(service).WantVerdicts(t, configured(), pod(constraint(9, "node")), all)
	zones(2, 0, 0, 0).Object(service).WantVerdicts(t, New(), pod(), all)
}
