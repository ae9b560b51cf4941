package main

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// The cluster of the benchmarks: as large as those of kube-scheduler's.
const (
	benchNodes = 5000
	benchPods  = 10000
)

// benchGuest is a guest of the whole bundle with nodes in three zones, and pods of
// the class on them.
func benchGuest(b *testing.B, pod *contractv1.Pod) *sdk.Guest {
	b.Helper()
	g := sdk.NewGuest()
	delta := &contractv1.Delta{Generation: 1, Reset_: true}
	delta.Operations = append(delta.Operations, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: pod}}})
	for i := range uint32(benchNodes) {
		name := fmt.Sprint("node-", i)
		delta.Operations = append(delta.Operations, &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: i, Node: &contractv1.Node{
			Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3)},
			Allocatable: &contractv1.Resources{MilliCpu: 16000, Memory: 64 << 30, Pods: 110},
		}}}})
	}
	for i := range benchPods {
		delta.Operations = append(delta.Operations, benchBind(uint32(i%benchNodes), i))
	}
	benchApply(b, g, delta)
	return g
}

func benchBind(node uint32, i int) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: node, Class: 1, Pod: &contractv1.Pod{Name: fmt.Sprint("pod-", i), Uid: fmt.Sprint("uid-", i)}}}}
}

func benchApply(b *testing.B, g *sdk.Guest, delta *contractv1.Delta) {
	b.Helper()
	data, err := proto.Marshal(delta)
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		b.Fatal(err)
	}
}

// wishes are what pods ask for, by name.
func wishes() map[string]*contractv1.Pod {
	labels := map[string]string{"app": "a"}
	ours := &contractv1.Selector{MatchLabels: labels}
	pod := func(change func(*contractv1.Pod)) *contractv1.Pod {
		p := &contractv1.Pod{
			Namespace: "d", Labels: labels, Containers: []*contractv1.Container{{Name: "c", Image: "registry/image:v1"}},
			Requests: &contractv1.Resources{MilliCpu: 100, Memory: 200 << 20}, NonZeroMilliCpu: 100, NonZeroMemory: 200 << 20,
		}
		change(p)
		return p
	}
	term := func(key string, weight int32) []*contractv1.PodAffinityTerm {
		return []*contractv1.PodAffinityTerm{{HasSelector: true, Selector: ours, Namespaces: []string{"d"}, TopologyKey: key, Weight: weight}}
	}
	spread := func(key, action string) []*contractv1.TopologySpreadConstraint {
		return []*contractv1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: key, WhenUnsatisfiable: action, HasSelector: true, Selector: ours}}
	}
	const zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
	return map[string]*contractv1.Pod{
		"plain":              pod(func(*contractv1.Pod) {}),
		"spread":             pod(func(p *contractv1.Pod) { p.TopologySpread = spread(zone, "DoNotSchedule") }),
		"preferred-spread":   pod(func(p *contractv1.Pod) { p.TopologySpread = spread(host, "ScheduleAnyway") }),
		"anti-affinity":      pod(func(p *contractv1.Pod) { p.PodAntiAffinity = &contractv1.PodAffinity{Required: term(host, 0)} }),
		"affinity":           pod(func(p *contractv1.Pod) { p.PodAffinity = &contractv1.PodAffinity{Required: term(zone, 0)} }),
		"preferred-affinity": pod(func(p *contractv1.Pod) { p.PodAffinity = &contractv1.PodAffinity{Preferred: term(host, 7)} }),
	}
}

// BenchmarkPass is what each plugin takes for a pass over all nodes: to follow a
// binding and say what it moved, to filter, to score, to normalise.
func BenchmarkPass(b *testing.B) {
	nodes := make([]uint32, benchNodes)
	for i := range nodes {
		nodes[i] = uint32(i)
	}
	verdicts, scores := make([]uint32, benchNodes), make([]int64, benchNodes)
	for _, wish := range []string{"plain", "spread", "preferred-spread", "anti-affinity", "affinity", "preferred-affinity"} {
		g := benchGuest(b, wishes()[wish])
		bound := benchPods
		for i, p := range g.Plugins() {
			run := func(call string, do func() error) {
				b.Run(wish+"/"+p.Name+"/"+call, func(b *testing.B) {
					for b.Loop() {
						if err := do(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			if p.Scope == sdk.ScopeCluster && (p.Kind == sdk.KindPredicate || p.Kind == sdk.KindPriority) {
				run("follow", func() error {
					benchApply(b, g, &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{benchBind(uint32(bound%benchNodes), bound)}})
					bound++
					_, _, _, err := g.Moved(i, 1, 0)
					return err
				})
			}
			switch p.Kind {
			case sdk.KindPredicate:
				run("filter", func() error { return g.Filter(i, 1, nodes, verdicts) })
			case sdk.KindPriority:
				run("score", func() error { return g.Score(i, 1, nodes, scores) })
				if p.Normalize == sdk.NormalizePlugin {
					run("normalize", func() error { return g.Normalize(i, 1, nodes, scores) })
				}
			}
		}
	}
}
