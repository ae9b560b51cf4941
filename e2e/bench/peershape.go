package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespaces of the pods that are measured, and of those that are there before.
// The templates of scheduler_perf name both.
const (
	measured = "sched-1"
	there    = "sched-0"
)

const (
	zoneLabel = corev1.LabelTopologyZone
	hostLabel = corev1.LabelHostname
)

// shape is a kind of pod. Those of the affinity rows are the templates of
// kube-scheduler's own scheduler_perf, v1.36.3.
type shape func(i int) *corev1.Pod

// plainPod is pod-default.yaml: one container with requests, limits and a port.
func plainPod(name, cpu string) *corev1.Pod {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("500Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10.2",
			Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: room, Requests: room},
		}}},
	}
}

func identical(i int) *corev1.Pod { return plainPod(fmt.Sprintf("pod-%d", i), "100m") }

// manyShapes is pod-default.yaml in fifty sizes, each with an application's label.
func manyShapes(i int) *corev1.Pod {
	kind := i % 50
	p := plainPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("%dm", 100+kind))
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", kind)}
	return p
}

// spreading is pod-with-topology-spreading.yaml.
func spreading(i int) *corev1.Pod {
	p := plainPod(fmt.Sprintf("spreading-pod-%d", i), "100m")
	p.Labels = map[string]string{"color": "blue"}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 5, TopologyKey: zoneLabel, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}},
	}}
	return p
}

// apart is pod-with-pod-anti-affinity.yaml. That template has room for one pod a
// node; here there are so many colours that five nodes are there for each pod of
// one.
func apart(colours int) shape {
	return func(i int) *corev1.Pod {
		colour := fmt.Sprintf("green-%d", i%colours)
		p := plainPod(fmt.Sprintf("anti-affinity-pod-%d", i), "100m")
		p.Labels = map[string]string{"color": colour}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": colour}},
				TopologyKey:   hostLabel, Namespaces: []string{measured, there},
			}},
		}}
		return p
	}
}

// beside is pod-with-pod-affinity.yaml.
func beside(i int) *corev1.Pod {
	p := plainPod(fmt.Sprintf("affinity-pod-%d", i), "100m")
	p.Labels = map[string]string{"color": "blue"}
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}},
			TopologyKey:   zoneLabel, Namespaces: []string{measured, there},
		}},
	}}
	return p
}

// toZones is pod-with-node-affinity.yaml.
func toZones(i int) *corev1.Pod {
	p := plainPod(fmt.Sprintf("node-affinity-%d", i), "100m")
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone1", "zone2"}}},
		}}},
	}}
	return p
}

// low is pod-low-priority.yaml: four of them fill a node for urgent.
func low(i int) *corev1.Pod {
	p := plainPod(fmt.Sprintf("low-%d", i), "900m")
	p.Spec.TerminationGracePeriodSeconds = new(int64) // nobody would end it
	return p
}

// urgent is pod-high-priority.yaml, with its priority by a class.
func urgent(i int) *corev1.Pod {
	p := plainPod(fmt.Sprintf("pod-high-priority-%d", i), "3000m")
	p.Spec.PriorityClassName = urgentClass
	return p
}

const urgentClass = "bench-high"

func urgentPriority() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgentClass}, Value: 10}
}

// tooLarge is pod-large-cpu.yaml: it fits on no node.
func tooLarge(i int) *corev1.Pod {
	p := plainPod(fmt.Sprintf("large-%d", i), "9")
	p.Spec.Containers[0].Resources.Limits = nil
	return p
}

// plainNode is node-default.yaml with a name, which is its host name too. zones
// are given out in turn.
func plainNode(i int, zones ...string) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hostLabel: name}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Bench"}},
		},
	}
	n.Status.Allocatable = n.Status.Capacity
	if len(zones) > 0 {
		n.Labels[zoneLabel] = zones[i%len(zones)]
	}
	return n
}
