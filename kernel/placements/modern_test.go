package placements

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
)

// modern is the default profile of kube-scheduler, as far as pods without volumes
// go.
var modern = plugin.Profile{
	SchedulerName: "default-scheduler",
	Predicates: []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits",
		"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
	},
	Priorities: []plugin.WeightedPriority{
		{Name: "TaintTolerationScore", Weight: 3}, {Name: "NodeAffinityScore", Weight: 2}, {Name: "NodeResourcesFitScore", Weight: 1},
		{Name: "PodTopologySpreadScore", Weight: 2}, {Name: "InterPodAffinityScore", Weight: 2},
		{Name: "NodeResourcesBalancedAllocation", Weight: 1}, {Name: "ImageLocality", Weight: 1},
	},
	Points: map[string][]string{
		sdk.KindPreEnqueue: {"SchedulingGates"},
		sdk.KindPreFilter:  {"NodeAffinityPreFilter", "VolumeRestrictionsPreFilter", "VolumeBindingPreFilter", "VolumeZonePreFilter"},
		sdk.KindPostFilter: {"DefaultPreemption"},
	},
}

// wishes are what the pods of BenchmarkModern ask for, by name: the work of
// kube-scheduler's own benchmarks. Of shapes there are fifty.
var wishes = map[string]func(*v1.PodSpec){
	"plain":  func(*v1.PodSpec) {},
	"shapes": func(*v1.PodSpec) {},
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
	"affinity-one-zone": func(s *v1.PodSpec) { // as in kube-scheduler's own benchmark
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

// shapes is how many there are.
const shapes = 50

const hostLabel = "kubernetes.io/hostname"

var ours = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-0"}}

// Pods that exclude each other, spread, or belong together are placed so, one after
// the other, with the answers that are kept in between: of 60 nodes in 3 zones each
// gets one of 50 pods that exclude each other, pods that spread differ by maxSkew
// at most, those that belong together share a zone.
func TestModernKeepsRules(t *testing.T) {
	directory := buildBundle(t, "modern")
	for name, pods := range map[string]int{"anti-affinity": 50, "spread": 200, "affinity": 100, "preferred-spread": 60} {
		t.Run(name, func(t *testing.T) {
			c := modernCases(60, pods, name)
			s := start(t, directory, manifest.TransportWASM, modern, fixed{&c.pods}, fixed{&c.nodes}, c.objects())
			defer s.stop()
			for deadline := time.Now().Add(2 * time.Minute); int(s.bound.Load()) < pods; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d of %d bound", s.bound.Load(), pods)
				}
			}
			zoneOf, perNode, perZone := map[string]string{}, map[string]int{}, map[string]int{}
			for i := range c.nodes.Items {
				zoneOf[c.nodes.Items[i].Name] = c.nodes.Items[i].Labels[zoneLabel]
			}
			s.placed.Range(func(_, node any) bool {
				perNode[node.(string)]++
				perZone[zoneOf[node.(string)]]++
				return true
			})
			least, most := pods, 0
			for _, zone := range []string{"zone-0", "zone-1", "zone-2"} {
				least, most = min(least, perZone[zone]), max(most, perZone[zone])
			}
			switch {
			case name == "anti-affinity" && len(perNode) != pods:
				t.Errorf("%d pods on %d nodes", pods, len(perNode))
			case name == "spread" && most-least > 5:
				t.Errorf("zones have %v", perZone)
			case name == "preferred-spread" && most-least > 8:
				t.Errorf("zones have %v", perZone)
			case name == "affinity" && len(perZone) != 1:
				t.Errorf("zones have %v", perZone)
			}
		})
	}
}

// modernCases are nodes in three zones, and pods that wish something.
func modernCases(nodes, pods int, wish string) *cases {
	c := &cases{}
	zones := 3
	if wish == "affinity-one-zone" {
		zones = 1
	}
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{
			hostLabel: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			zoneLabel: fmt.Sprint("zone-", i%zones), "topology.kubernetes.io/region": "here", "pool": fmt.Sprint("pool-", i%10),
		}}}
		n.Status.Capacity = quantities("cpu", 16, "memory", "64Gi", "pods", 110)
		n.Status.Allocatable = n.Status.Capacity
		c.nodes.Items = append(c.nodes.Items, n)
	}
	for i := range pods {
		pod := v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprintf("5f0c9b1e-0000-4000-8000-%012d", i)),
				Labels: map[string]string{"app": "app-0"},
			},
			Spec: v1.PodSpec{SchedulerName: modern.SchedulerName, Containers: []v1.Container{{
				Name: "c", Image: "registry/image:v1", Resources: v1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "200Mi")},
			}}},
		}
		if wish == "shapes" {
			pod.Labels["app"] = fmt.Sprint("app-", i%shapes)
			pod.Spec.Containers[0].Resources.Requests = quantities("cpu", fmt.Sprint(100+i%shapes, "m"), "memory", "200Mi")
		}
		wishes[wish](&pod.Spec)
		c.pods.Items = append(c.pods.Items, pod)
	}
	return c
}

// BenchmarkModern is BenchmarkAlone with kube-scheduler's policy and pods that ask
// for something: -benchtime 4000x, as only one pod with anti-affinity fits on each
// of the 5,000 nodes.
func BenchmarkModern(b *testing.B) {
	directory := buildBundle(b, "modern")
	for _, name := range []string{"plain", "shapes", "node-affinity", "spread", "preferred-spread", "anti-affinity", "affinity", "affinity-one-zone", "preferred-affinity"} {
		b.Run(name, func(b *testing.B) {
			c := modernCases(5000, b.N, name)
			var began, ended time.Time
			var used time.Duration
			first := 1 // of shapes the first pods are told apart: each is the first of its shape
			if name == "shapes" {
				first = min(shapes, b.N)
			}
			s := start(b, directory, manifest.TransportWASM, modern, fixed{&c.pods}, fixed{&c.nodes}, c.objects())
			for deadline := time.Now().Add(4 * time.Minute); int(s.bound.Load()) < b.N; time.Sleep(100 * time.Microsecond) {
				if bound := int(s.bound.Load()); began.IsZero() && bound > 0 {
					began, used = time.Now(), processorTime(b)
				} else if first > 1 && bound >= first {
					b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(first-1), "cpu-µs/shape")
					began, used, first = time.Now(), processorTime(b), -bound
				}
				if time.Now().After(deadline) {
					b.Fatalf("%d of %d bound", s.bound.Load(), b.N)
				}
			}
			ended = time.Now()
			if since := max(-first, 1); b.N > since {
				b.ReportMetric(float64(b.N-since)/ended.Sub(began).Seconds(), "pods/s")
				b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N-since), "cpu-µs/pod")
			}
			s.stop()
		})
	}
}
