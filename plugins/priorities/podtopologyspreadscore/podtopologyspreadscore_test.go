package podtopologyspreadscore

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var foo = map[string]string{"foo": ""}

func soft(skew int32, key string) *contractv1.TopologySpreadConstraint {
	return &contractv1.TopologySpreadConstraint{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: "ScheduleAnyway", HasSelector: true, Selector: &contractv1.Selector{MatchLabels: foo}}
}

// scores are those of nodes in zones, each with so many pods that match; a node of
// no zone has no zone label.
func scores(t *testing.T, zones []string, pods []int, pod *contractv1.Pod, more ...*contractv1.Operation) []int64 {
	t.Helper()
	g, err := sdk.GuestOf(New())
	if err != nil {
		t.Fatal(err)
	}
	pod.Namespace, pod.Labels = "d", foo
	ops := append(more, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: pod}}})
	var nodes []uint32
	for i, zone := range zones {
		name := fmt.Sprint("n", i)
		n := &contractv1.Node{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "node": name}}
		if zone != "" {
			n.Labels["topology.kubernetes.io/zone"] = zone
		}
		ops = append(ops, &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: uint32(i), Node: n}}})
		for k := range pods[i] {
			ops = append(ops, &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: uint32(i), Pod: &contractv1.Pod{
				Namespace: "d", Uid: fmt.Sprint(i, "-", k), Labels: foo}}}})
		}
		nodes = append(nodes, uint32(i))
	}
	data, err := proto.Marshal(&contractv1.Delta{Operations: ops})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	out := make([]int64, len(nodes))
	if err := g.Score(0, 1, nodes, out); err != nil {
		t.Fatal(err)
	}
	if err := g.Normalize(0, 1, nodes, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestScores(t *testing.T) {
	const zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
	constrained := func(c ...*contractv1.TopologySpreadConstraint) *contractv1.Pod {
		return &contractv1.Pod{TopologySpread: c}
	}
	service := &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{
		Key: &contractv1.ObjectKey{Kind: "Service", Namespace: "d", Name: "s"}, HasSelector: true, Selector: &contractv1.Selector{MatchLabels: foo}}}}
	hard := soft(1, zone)
	hard.WhenUnsatisfiable = "DoNotSchedule"
	one := []string{"z", "z", "z", "z"}
	two := []string{"zone1", "zone1", "zone2", "zone2"}
	for _, c := range []struct {
		name  string
		zones []string
		pods  []int
		pod   *contractv1.Pod
		more  []*contractv1.Operation
		want  []int64
	}{
		{"one constraint on node, no existing pods", one, []int{0, 0, 0, 0}, constrained(soft(1, host)), nil, []int64{100, 100, 100, 100}},
		{"one constraint on node, all 4 nodes are candidates: 2/1/0/3", one, []int{2, 1, 0, 3}, constrained(soft(1, host)), nil, []int64{20, 60, 100, 0}},
		{"one constraint on zone: 3/3", two, []int{2, 1, 0, 3}, constrained(soft(1, zone)), nil, []int64{100, 100, 100, 100}},
		{"one constraint on zone: 4/1", two, []int{2, 2, 1, 0}, constrained(soft(1, zone)), nil, []int64{16, 16, 100, 100}},
		{"a node without the label of a constraint scores 0", []string{"zone1", "", "zone2", "zone2"}, []int{1, 0, 0, 0}, constrained(soft(1, zone)), nil, []int64{0, 0, 100, 100}},
		{"hard constraints take no part", two, []int{2, 2, 1, 0}, constrained(hard), nil, []int64{0, 0, 0, 0}},
		{"without constraints and services there is nothing to say", two, []int{2, 2, 1, 0}, constrained(), nil, []int64{0, 0, 0, 0}},
		{"the system's defaults count the pods of a service", two, []int{3, 0, 0, 0}, constrained(), []*contractv1.Operation{service}, []int64{37, 75, 100, 100}},
		{"and score nodes without a zone by the hostname", []string{"", ""}, []int{3, 0}, constrained(), []*contractv1.Operation{service}, []int64{33, 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scores(t, c.zones, c.pods, c.pod, c.more...); !slices.Equal(got, c.want) {
				t.Errorf("scores %v, want %v", got, c.want)
			}
		})
	}
}
