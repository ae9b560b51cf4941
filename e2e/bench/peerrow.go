package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// peerRow is one kind of work that both sides get.
type peerRow struct {
	id, name string
	// like names the template and configuration of scheduler_perf, and what is
	// different here.
	like string
	// floor is the pods a second that v1.36.3's own CI asks of that
	// configuration, on its machines and without an API server of its own
	// process; 0: none.
	floor float64
	goal  float64
	zones []string
	// needs are the plugins without which Pintle cannot answer as upstream, any
	// of each.
	needs [][]string
	nodes int
	count int
	shape shape
	// before makes what is there before the first pod is created.
	before func(ctx context.Context, c *contender) error
	// held: all pods are there before the scheduler begins.
	held bool
	// legal asserts what the shape asks for, of all bound pods.
	legal func(nodes map[string]*corev1.Node, pods []corev1.Pod) error
}

// rows are the work of one run with its sizes.
func (o options) rows() []peerRow {
	nodes, pods := o.peerNodes, o.peerPods
	colours := max(1, (5*pods+nodes-1)/nodes)
	moons := []string{"moon-1", "moon-2", "moon-3"}
	affinity := [][]string{{"InterPodAffinity"}}
	return []peerRow{
		{
			id: "identical", name: "identical pods, create to bound", goal: 10, floor: 270, nodes: nodes, count: pods, shape: identical,
			like: "pod-default.yaml, SchedulingBasic",
		},
		{
			id: "alone", name: "identical pods that are there, scheduling alone", goal: 10, floor: 270, nodes: nodes, count: pods, shape: identical, held: true,
			like: "pod-default.yaml, SchedulingBasic; the scheduler starts when all pods exist",
		},
		{
			id: "shapes", name: "50 shapes of pods", goal: 10, nodes: nodes, count: pods, shape: manyShapes,
			like: "pod-default.yaml with 50 sizes and labels",
		},
		{
			id: "spread", name: "topology spread", goal: 10, floor: 85, nodes: nodes, count: pods, shape: spreading, zones: moons,
			needs: [][]string{{"PodTopologySpread"}}, legal: evenly,
			like: "pod-with-topology-spreading.yaml, TopologySpreading",
		},
		{
			id: "anti-affinity", name: "pod anti-affinity", goal: 10, floor: 60, nodes: nodes, count: pods, shape: apart(colours),
			needs: affinity, legal: alone,
			like: fmt.Sprintf("pod-with-pod-anti-affinity.yaml, SchedulingPodAntiAffinity, in %d colours", colours),
		},
		{
			id: "affinity", name: "pod affinity", goal: 10, floor: 35, nodes: nodes, count: pods, shape: beside, zones: []string{"zone1"},
			needs: affinity, legal: together,
			like: "pod-with-pod-affinity.yaml, SchedulingPodAffinity",
		},
		{
			id: "node-affinity", name: "node affinity", goal: 10, floor: 220, nodes: nodes, count: pods, shape: toZones, zones: []string{"zone1"},
			needs: [][]string{{"NodeAffinity", "MatchNodeSelector"}}, legal: inZone,
			like: "pod-with-node-affinity.yaml, SchedulingNodeAffinity",
		},
		{
			id: "preemption", name: "preemption", goal: 10, nodes: o.peerFull, count: o.peerFull, shape: urgent,
			needs: [][]string{{"DefaultPreemption"}}, before: withPods(4*o.peerFull, low, true),
			like: fmt.Sprintf("pod-high-priority.yaml over %d of pod-low-priority.yaml, PreemptionBasic, with a priority class", 4*o.peerFull),
		},
		{
			id: "queue-empty", name: "others, nothing unschedulable", nodes: nodes, count: (pods + 1) / 2, shape: identical,
			like: "pod-default.yaml",
		},
		{
			id: "queue-full", name: fmt.Sprintf("others, %d unschedulable in the queue", o.peerStuck), nodes: nodes, count: (pods + 1) / 2, shape: identical,
			floor: 140, before: withPods(o.peerStuck, tooLarge, false),
			like: "pod-default.yaml beside pod-large-cpu.yaml, as Unschedulable",
		},
	}
}

// withPods makes n pods of a shape and waits until each is bound, or until each
// was tried in vain.
func withPods(n int, of shape, bound bool) func(context.Context, *contender) error {
	return func(ctx context.Context, c *contender) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, urgentPriority(), plainCreate); err != nil && !isExists(err) {
			return err
		}
		if err := createAll(ctx, client, there, n, 32, of); err != nil {
			return err
		}
		return awaitPods(ctx, client, there, n, func(p *corev1.Pod) bool {
			if bound {
				return p.Spec.NodeName != ""
			}
			for i := range p.Status.Conditions {
				if t := &p.Status.Conditions[i]; t.Type == corev1.PodScheduled && t.Reason == corev1.PodReasonUnschedulable {
					return true
				}
			}
			return false
		})
	}
}

// evenly asserts the skew of spreading: between zones at most five.
func evenly(nodes map[string]*corev1.Node, pods []corev1.Pod) error {
	count := map[string]int{}
	for _, n := range nodes {
		count[n.Labels[zoneLabel]] += 0
	}
	for i := range pods {
		count[nodes[pods[i].Spec.NodeName].Labels[zoneLabel]]++
	}
	least, most := len(pods), 0
	for _, n := range count {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 5 {
		return fmt.Errorf("zones have %d to %d pods", least, most)
	}
	return nil
}

// alone asserts that no node has two pods of one colour.
func alone(_ map[string]*corev1.Node, pods []corev1.Pod) error {
	taken := map[[2]string]string{}
	for i := range pods {
		at := [2]string{pods[i].Spec.NodeName, pods[i].Labels["color"]}
		if other := taken[at]; other != "" {
			return fmt.Errorf("%s and %s, both %s, are on %s", other, pods[i].Name, at[1], at[0])
		}
		taken[at] = pods[i].Name
	}
	return nil
}

// together asserts that all pods are in one zone.
func together(nodes map[string]*corev1.Node, pods []corev1.Pod) error {
	for i := range pods {
		if a, b := nodes[pods[0].Spec.NodeName].Labels[zoneLabel], nodes[pods[i].Spec.NodeName].Labels[zoneLabel]; a != b {
			return fmt.Errorf("%s is in zone %s, %s in %s", pods[0].Name, a, pods[i].Name, b)
		}
	}
	return nil
}

func inZone(nodes map[string]*corev1.Node, pods []corev1.Pod) error {
	for i := range pods {
		if z := nodes[pods[i].Spec.NodeName].Labels[zoneLabel]; z != "zone1" && z != "zone2" {
			return fmt.Errorf("%s is in zone %q", pods[i].Name, z)
		}
	}
	return nil
}
