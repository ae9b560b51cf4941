package placements

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/plugin"
)

// modern is the default profile of kube-scheduler, as far as pods without volumes
// go.
var modern = plugin.Profile{
	SchedulerName: "default-scheduler",
	Predicates: []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity",
	},
	Priorities: []plugin.WeightedPriority{
		{Name: "TaintTolerationScore", Weight: 3}, {Name: "NodeAffinityScore", Weight: 2}, {Name: "NodeResourcesFitScore", Weight: 1},
		{Name: "PodTopologySpreadScore", Weight: 2}, {Name: "InterPodAffinityScore", Weight: 2},
		{Name: "NodeResourcesBalancedAllocation", Weight: 1}, {Name: "ImageLocality", Weight: 1},
	},
}

// wishes are what the pods of BenchmarkModern ask for, by name: the work of
// kube-scheduler's own benchmarks.
var wishes = map[string]func(*v1.PodSpec){
	"plain": func(*v1.PodSpec) {},
	"spread": func(s *v1.PodSpec) {
		s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: zoneLabel, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: ours}}
	},
	"preferred-spread": func(s *v1.PodSpec) {
		s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: zoneLabel, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: ours}}
	},
	"anti-affinity": func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: ours, TopologyKey: hostLabel}}}}
	},
	"affinity": func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: ours, TopologyKey: zoneLabel}}}}
	},
	"preferred-affinity": func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
			{Weight: 1, PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: ours, TopologyKey: hostLabel}}}}}
	},
	"node-affinity": func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: zoneLabel, Operator: v1.NodeSelectorOpIn, Values: []string{"zone-0", "zone-1"}}}}}}}}
	},
}

const hostLabel = "kubernetes.io/hostname"

var ours = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-0"}}

// BenchmarkModern is BenchmarkAlone with kube-scheduler's policy and pods that ask
// for something: -benchtime 4000x, as only one pod with anti-affinity fits on each
// of the 5,000 nodes.
func BenchmarkModern(b *testing.B) {
	directory := buildBundle(b, "modern")
	for _, name := range []string{"plain", "node-affinity", "spread", "preferred-spread", "anti-affinity", "affinity", "preferred-affinity"} {
		b.Run(name, func(b *testing.B) {
			c := &cases{}
			for i := range 5000 {
				name := fmt.Sprint("node-", i)
				n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{
					hostLabel: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
					zoneLabel: fmt.Sprint("zone-", i%3), "topology.kubernetes.io/region": "here", "pool": fmt.Sprint("pool-", i%10),
				}}}
				n.Status.Capacity = quantities("cpu", 16, "memory", "64Gi", "pods", 110)
				n.Status.Allocatable = n.Status.Capacity
				c.nodes.Items = append(c.nodes.Items, n)
			}
			for i := range b.N {
				pod := v1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "a", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprintf("5f0c9b1e-0000-4000-8000-%012d", i)),
						Labels: map[string]string{"app": "app-0"},
					},
					Spec: v1.PodSpec{SchedulerName: modern.SchedulerName, Containers: []v1.Container{{
						Name: "c", Image: "registry/image:v1", Resources: v1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "200Mi")},
					}}},
				}
				wishes[name](&pod.Spec)
				c.pods.Items = append(c.pods.Items, pod)
			}
			var began, ended time.Time
			var used time.Duration
			s := start(b, directory, plugin.TransportWASM, modern, fixed{&c.pods}, fixed{&c.nodes}, c.objects())
			for deadline := time.Now().Add(4 * time.Minute); int(s.bound.Load()) < b.N; time.Sleep(100 * time.Microsecond) {
				if began.IsZero() && s.bound.Load() > 0 {
					began, used = time.Now(), processorTime(b)
				}
				if time.Now().After(deadline) {
					b.Fatalf("%d of %d bound", s.bound.Load(), b.N)
				}
			}
			ended = time.Now()
			if b.N > 1 {
				b.ReportMetric(float64(b.N-1)/ended.Sub(began).Seconds(), "pods/s")
				b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N-1), "cpu-µs/pod")
			}
			s.stop()
		})
	}
}
