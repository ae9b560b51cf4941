package placements

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// absurd are pods that nobody should write, by what is wrong with them, and whether
// they have a place nevertheless.
var absurd = map[string]struct {
	spec   func(*v1.PodSpec)
	placed bool
}{
	"largest-quantities": {spec: func(s *v1.PodSpec) {
		s.Containers[0].Resources.Requests = v1.ResourceList{
			"cpu": *resource.NewQuantity(math.MaxInt64, resource.DecimalSI), "memory": *resource.NewQuantity(math.MaxInt64, resource.BinarySI),
		}
	}},
	"many-largest-quantities": {spec: func(s *v1.PodSpec) { // their sum is more than a number holds
		s.Containers[0].Resources.Requests = v1.ResourceList{"memory": *resource.NewQuantity(math.MaxInt64, resource.BinarySI)}
		for i := range 9 {
			c := *s.Containers[0].DeepCopy()
			c.Name = fmt.Sprint("c", i)
			s.Containers = append(s.Containers, c)
		}
	}},
	"beyond-numbers": {spec: func(s *v1.PodSpec) { s.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1e40") }},
	"unknown-resource": {spec: func(s *v1.PodSpec) {
		s.Containers[0].Resources.Requests["example.com/device"] = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	}},
	"contradiction": {spec: func(s *v1.PodSpec) {
		var terms []v1.NodeSelectorTerm
		for i := range 500 {
			term := v1.NodeSelectorTerm{}
			for k := range 20 {
				term.MatchExpressions = append(term.MatchExpressions,
					v1.NodeSelectorRequirement{Key: fmt.Sprintf("k%d-%d", i, k), Operator: v1.NodeSelectorOpExists},
					v1.NodeSelectorRequirement{Key: fmt.Sprintf("k%d-%d", i, k), Operator: v1.NodeSelectorOpDoesNotExist})
			}
			terms = append(terms, term)
		}
		s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	}},
	"many-values": {placed: true, spec: func(s *v1.PodSpec) {
		values := make([]string, 10_000)
		for i := range values {
			values[i] = fmt.Sprint("node-", len(values)-1-i)
		}
		s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: hostLabel, Operator: v1.NodeSelectorOpIn, Values: values}}}}}}}
	}},
	"many-constraints": {placed: true, spec: func(s *v1.PodSpec) {
		for range 10_000 {
			s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				MaxSkew: 1000, TopologyKey: zoneLabel, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: ours})
		}
	}},
	"one-that-excludes-itself": {spec: func(s *v1.PodSpec) {
		both := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-0"}}
		s.Affinity = &v1.Affinity{
			PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: both, TopologyKey: "nobody/has-it"}}},
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: both, TopologyKey: hostLabel}}},
		}
	}},
	"many-tolerations": {placed: true, spec: func(s *v1.PodSpec) {
		for i := range 5000 {
			s.Tolerations = append(s.Tolerations, v1.Toleration{Key: fmt.Sprint("taint-", i), Operator: v1.TolerationOpExists})
		}
	}},
}

// Impossible quantities, selectors that contradict themselves, 10,000 constraints and
// thousands of taints get an answer or a refusal in words; other pods are placed
// meanwhile, and no node has more than it can hold.
func TestBadInputIsAnswered(t *testing.T) {
	directory := buildBundle(t, "modern")
	const plain = 40
	c := modernCases(12, plain, "plain")
	for i := range 4000 {
		c.nodes.Items[3].Spec.Taints = append(c.nodes.Items[3].Spec.Taints, v1.Taint{Key: fmt.Sprint("taint-", i), Effect: v1.TaintEffectNoSchedule})
	}
	placed := 0
	for name, bad := range absurd {
		pod := modernCases(0, 1, "plain").pods.Items[0]
		pod.Name, pod.UID, pod.Labels = name, types.UID("uid-of-"+name), map[string]string{"app": "app-0", "bad": name}
		bad.spec(&pod.Spec)
		c.pods.Items = append(c.pods.Items, pod)
		if bad.placed {
			placed++
		}
	}
	s := start(t, directory, manifest.TransportWASM, modern, fixed{&c.pods}, fixed{&c.nodes}, c.objects())
	defer s.stop()
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not in time: %s; %d bound", what, s.bound.Load())
			}
		}
	}
	for name, bad := range absurd {
		eventually(name+" is answered", func() bool {
			d, known := s.Explain("a", name)
			return known && (bad.placed && d.Node != "" || !bad.placed && d.Node == "" && d.Message != "")
		})
		if d, _ := s.Explain("a", name); !bad.placed && !strings.HasPrefix(d.Message, "0/12 nodes are available: ") {
			t.Errorf("%s: %q", name, d.Message)
		}
	}
	eventually("the others are placed", func() bool { return int(s.bound.Load()) == plain+placed })
	on := map[string]int{}
	s.placed.Range(func(name, node any) bool {
		on[node.(string)]++
		if node == "node-3" && name != "many-tolerations" {
			t.Errorf("%s is on the tainted node", name)
		}
		return true
	})
	for node, n := range on {
		if n > 110 {
			t.Errorf("%s has %d pods", node, n)
		}
	}
}
