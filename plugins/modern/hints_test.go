package main

import (
	"testing"

	"pintle.dev/pintle/plugins/predicates/interpodaffinity"
	"pintle.dev/pintle/plugins/predicates/nodeaffinity"
	"pintle.dev/pintle/plugins/predicates/nodeports"
	"pintle.dev/pintle/plugins/predicates/noderesourcesfit"
	"pintle.dev/pintle/plugins/predicates/nodeunschedulable"
	"pintle.dev/pintle/plugins/predicates/tainttoleration"
	"pintle.dev/pintle/sdk"
)

// hears reports whether an event brings a pod back that a predicate refused, as the
// host asks it.
func hears(p *sdk.Predicate, pod *sdk.Pod, e *sdk.Event) bool {
	for _, i := range p.Events {
		if (i.Kind == e.Kind || i.Kind == sdk.KindAny) && i.Actions&e.Action != 0 && (i.Helps == nil || i.Helps(&sdk.Cluster{}, pod, e)) {
			return true
		}
	}
	return false
}

// The events that wake a pod are those of kube-scheduler's queueing hints: the cases
// are of the tables that it tests its own plugins with.
func TestHintsAreKubeSchedulers(t *testing.T) {
	const gpu = "example.com/gpu"
	node := func(cpu, memory, pods, gpus int64) *sdk.Node {
		return &sdk.Node{Allocatable: sdk.Resources{MilliCPU: cpu, Memory: memory, Pods: pods, Scalar: map[string]int64{gpu: gpus}}}
	}
	asks := func(cpu, memory, gpus int64) *sdk.Pod {
		p := &sdk.Pod{Namespace: "a", Requests: sdk.Resources{MilliCPU: cpu, Memory: memory}}
		if gpus > 0 {
			p.Requests.Scalar = map[string]int64{gpu: gpus}
		}
		return p
	}
	labelled := func(pairs ...string) *sdk.Node {
		n := &sdk.Node{Labels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			n.Labels[pairs[i]] = pairs[i+1]
		}
		return n
	}
	tainted := func(effects ...string) *sdk.Node {
		n := &sdk.Node{}
		for _, effect := range effects {
			n.Taints = append(n.Taints, sdk.Taint{Key: "dedicated", Value: "user1", Effect: effect})
		}
		return n
	}
	ports := func(list ...sdk.HostPort) *sdk.Pod { return &sdk.Pod{Namespace: "a", HostPorts: list} }
	added := func(n *sdk.Node) *sdk.Event { return &sdk.Event{Kind: sdk.KindNode, Action: sdk.ActionAdd, NewNode: n} }
	changed := func(a sdk.Action, old, now *sdk.Node) *sdk.Event {
		return &sdk.Event{Kind: sdk.KindNode, Action: a, OldNode: old, NewNode: now}
	}
	gone := func(p *sdk.Pod) *sdk.Event { return &sdk.Event{Kind: sdk.KindPod, Action: sdk.ActionDelete, OldPod: p} }
	came := func(p *sdk.Pod) *sdk.Event { return &sdk.Event{Kind: sdk.KindPod, Action: sdk.ActionAdd, NewPod: p} }
	shrunk := func(old, now *sdk.Pod) *sdk.Event {
		return &sdk.Event{Kind: sdk.KindPod, Action: sdk.ActionUpdatePodScaleDown, OldPod: old, NewPod: now}
	}
	relabelled := func(old, now *sdk.Pod) *sdk.Event {
		return &sdk.Event{Kind: sdk.KindPod, Action: sdk.ActionUpdatePodLabel, OldPod: old, NewPod: now}
	}
	const (
		room  = sdk.ActionUpdateNodeAllocatable
		label = sdk.ActionUpdateNodeLabel
		taint = sdk.ActionUpdateNodeTaint
	)
	fit, affinity, taints := noderesourcesfit.New(), nodeaffinity.New(), tainttoleration.New()
	cordon, hostPorts, pods := nodeunschedulable.New(), nodeports.New(), interpodaffinity.New()

	zoned := &sdk.Pod{Namespace: "a", NodeAffinity: &sdk.NodeAffinity{HasRequired: true, Required: []sdk.NodeSelectorTerm{
		{MatchExpressions: []sdk.Requirement{{Key: "foo", Operator: "In", Values: []string{"bar"}}}},
	}}}
	selects := &sdk.Pod{Namespace: "a", NodeSelector: map[string]string{"foo": "bar"}}
	tolerant := &sdk.Pod{Namespace: "a", Tolerations: []sdk.Toleration{{Key: "dedicated", Operator: "Equal", Value: "user1", Effect: "NoSchedule"}}}
	plain := &sdk.Pod{Namespace: "a"}
	cordoned, open := &sdk.Node{Unschedulable: true}, &sdk.Node{}
	term := sdk.PodAffinityTerm{
		Selector: &sdk.Selector{MatchExpressions: []sdk.Requirement{{Key: "service", Operator: "In", Values: []string{"securityscan"}}}}, Namespaces: []string{"a"}, TopologyKey: "zone",
	}
	needs := &sdk.Pod{Namespace: "a", PodAffinity: &sdk.PodAffinity{Required: []sdk.PodAffinityTerm{term}}}
	shuns := &sdk.Pod{Namespace: "a", PodAntiAffinity: &sdk.PodAffinity{Required: []sdk.PodAffinityTerm{term}}}
	scan := &sdk.Pod{Namespace: "a", Labels: map[string]string{"service": "securityscan"}}
	other := &sdk.Pod{Namespace: "a", Labels: map[string]string{"service": "other"}}
	foreign := &sdk.Pod{Namespace: "b", Labels: map[string]string{"service": "securityscan"}}

	for _, c := range []struct {
		name      string
		predicate *sdk.Predicate
		pod       *sdk.Pod
		event     *sdk.Event
		want      bool
	}{
		{"fit: a pod goes", &fit, asks(1, 1, 0), gone(asks(1, 1, 0)), true},
		{"fit: a pod comes", &fit, asks(1, 1, 0), came(asks(1, 1, 0)), false},
		{"fit: a pod asks for less cpu", &fit, asks(1, 0, 0), shrunk(asks(2, 0, 0), asks(1, 0, 0)), true},
		{"fit: a pod asks for less of what is not asked for", &fit, asks(1, 0, 0), shrunk(asks(1, 2, 0), asks(1, 1, 0)), false},
		{"fit: a pod asks for fewer devices", &fit, asks(1, 0, 1), shrunk(asks(1, 0, 2), asks(1, 0, 1)), true},
		{"fit: a pod asks for fewer devices of no use", &fit, asks(1, 0, 0), shrunk(asks(1, 0, 2), asks(1, 0, 1)), false},
		{"fit: a pod asks for more", &fit, asks(1, 1, 0), shrunk(asks(1, 1, 0), asks(2, 1, 0)), false},
		{"fit: a node with room comes", &fit, asks(2, 2, 1), added(node(4, 4, 10, 1)), true},
		{"fit: a node without room comes", &fit, asks(2, 2, 0), added(node(1, 4, 10, 0)), false},
		{"fit: a node without devices comes", &fit, asks(2, 2, 1), added(node(4, 4, 10, 0)), false},
		{"fit: a node that takes no pods comes", &fit, asks(1, 1, 0), added(node(4, 4, 0, 0)), false},
		{"fit: a node grows to what is asked for", &fit, asks(2, 0, 0), changed(room, node(1, 1, 10, 0), node(2, 1, 10, 0)), true},
		{"fit: a node grows and is too small still", &fit, asks(4, 0, 0), changed(room, node(1, 1, 10, 0), node(2, 1, 10, 0)), false},
		{"fit: a node grows where nothing is asked for", &fit, asks(2, 0, 0), changed(room, node(4, 1, 10, 0), node(4, 8, 10, 0)), false},
		{"fit: a node shrinks and fits still", &fit, asks(2, 0, 0), changed(room, node(8, 1, 10, 0), node(4, 1, 10, 0)), false},
		{"fit: a node takes more pods", &fit, asks(1, 0, 0), changed(room, node(4, 1, 1, 0), node(4, 1, 2, 0)), true},
		{"fit: a node has more devices", &fit, asks(1, 0, 2), changed(room, node(4, 1, 10, 1), node(4, 1, 10, 2)), true},
		{"fit: a node is labelled", &fit, asks(1, 1, 0), changed(label, node(4, 4, 10, 0), node(4, 4, 10, 0)), false},

		{"affinity: a node comes that matches", &affinity, zoned, added(labelled("foo", "bar")), true},
		{"affinity: a node comes that does not", &affinity, zoned, added(labelled("foo", "baz")), false},
		{"affinity: a node comes to match", &affinity, zoned, changed(label, labelled("foo", "baz"), labelled("foo", "bar")), true},
		{"affinity: a node goes on matching", &affinity, zoned, changed(label, labelled("foo", "bar"), labelled("foo", "bar", "x", "y")), false},
		{"affinity: a node ceases to match", &affinity, zoned, changed(label, labelled("foo", "bar"), labelled("foo", "baz")), false},
		{"affinity: a node goes on not to match", &affinity, zoned, changed(label, labelled("foo", "x"), labelled("foo", "y")), false},
		{"affinity: a node comes that is selected", &affinity, selects, added(labelled("foo", "bar")), true},
		{"affinity: a node that is not selected", &affinity, selects, changed(label, labelled("foo", "x"), labelled("foo", "y")), false},

		{"taints: a node comes that is tolerated", &taints, tolerant, added(tainted("NoSchedule")), true},
		{"taints: a node comes that is not", &taints, plain, added(tainted("NoSchedule")), false},
		{"taints: a node comes without", &taints, plain, added(tainted()), true},
		{"taints: a taint goes", &taints, plain, changed(taint, tainted("NoSchedule"), tainted()), true},
		{"taints: a wish goes", &taints, plain, changed(taint, tainted("PreferNoSchedule"), tainted()), false},
		{"taints: a taint comes", &taints, plain, changed(taint, tainted(), tainted("NoExecute")), false},
		{"taints: one is exchanged for one that is tolerated", &taints, tolerant, changed(taint, tainted("NoExecute"), tainted("NoSchedule")), true},
		{"taints: nothing that was not tolerated changes", &taints, tolerant, changed(taint, tainted("NoSchedule"), tainted()), false},

		{"cordon: an open node comes", &cordon, plain, added(open), true},
		{"cordon: a cordoned node comes", &cordon, plain, added(cordoned), false},
		{"cordon: a node is opened", &cordon, plain, changed(taint, cordoned, open), true},
		{"cordon: a node is cordoned", &cordon, plain, changed(taint, open, cordoned), false},
		{"cordon: it stays open", &cordon, plain, changed(taint, open, open), false},

		{"ports: the one that has it goes", &hostPorts, ports(sdk.HostPort{Port: 80}), gone(ports(sdk.HostPort{Port: 80})), true},
		{"ports: one with another goes", &hostPorts, ports(sdk.HostPort{Port: 80}), gone(ports(sdk.HostPort{Port: 81})), false},
		{"ports: one of another protocol goes", &hostPorts, ports(sdk.HostPort{Port: 80, Protocol: "UDP"}), gone(ports(sdk.HostPort{Port: 80})), false},
		{"ports: one of another address goes", &hostPorts, ports(sdk.HostPort{Port: 80, HostIP: "10.0.0.1"}), gone(ports(sdk.HostPort{Port: 80, HostIP: "10.0.0.2"})), false},
		{"ports: one of all addresses goes", &hostPorts, ports(sdk.HostPort{Port: 80, HostIP: "10.0.0.1"}), gone(ports(sdk.HostPort{Port: 80})), true},
		{"ports: one without goes", &hostPorts, ports(sdk.HostPort{Port: 80}), gone(plain), false},
		{"ports: a node comes", &hostPorts, ports(sdk.HostPort{Port: 80}), added(open), true},

		{"pods: one comes that is needed", &pods, needs, came(scan), true},
		{"pods: one comes that is not", &pods, needs, came(other), false},
		{"pods: one comes to another namespace", &pods, needs, came(foreign), false},
		{"pods: one comes to be needed", &pods, needs, relabelled(other, scan), true},
		{"pods: one ceases to be needed", &pods, needs, relabelled(scan, other), false},
		{"pods: one goes that is shunned", &pods, shuns, gone(scan), true},
		{"pods: one goes that is not", &pods, shuns, gone(other), false},
		{"pods: one goes that shuns it", &pods, scan, gone(shuns), true},
		{"pods: one ceases to be shunned", &pods, shuns, relabelled(scan, other), true},
		{"pods: one comes to be shunned", &pods, shuns, relabelled(other, scan), false},
		{"pods: a node comes", &pods, needs, added(labelled("zone", "z")), true},
		{"pods: a node moves", &pods, needs, changed(label, labelled("zone", "x"), labelled("zone", "y")), true},
		{"pods: a node is labelled otherwise", &pods, needs, changed(label, labelled("zone", "x"), labelled("zone", "x", "a", "b")), false},
		{"pods: a node gets a zone that is shunned for", &pods, shuns, changed(label, labelled(), labelled("zone", "y")), true},
	} {
		if got := hears(c.predicate, c.pod, c.event); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
