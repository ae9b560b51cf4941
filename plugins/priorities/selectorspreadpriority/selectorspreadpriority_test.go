package selectorspreadpriority

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var web = map[string]string{"app": "web"}

func node(index uint32, labels map[string]string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{
		Index: index, Node: &contractv1.Node{Name: fmt.Sprint("n", index), Labels: labels}}}}
}

func pods(index uint32, count int, pod *contractv1.Pod) []*contractv1.Operation {
	var ops []*contractv1.Operation
	for i := range count {
		p := proto.Clone(pod).(*contractv1.Pod)
		p.Uid = fmt.Sprint(index, "/", i, pod.Namespace, pod.Labels)
		ops = append(ops, &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: index, Pod: p}}})
	}
	return ops
}

func object(kind, namespace string, selector map[string]string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{
		Key:         &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: "o"},
		HasSelector: selector != nil, Selector: &contractv1.Selector{MatchLabels: selector}}}}
}

// scores runs a priority over nodes 0 to n-1 as the host would.
func scores(t *testing.T, p sdk.Priority, n int, ops ...*contractv1.Operation) []int64 {
	t.Helper()
	g, err := sdk.GuestOf(p)
	if err != nil {
		t.Fatal(err)
	}
	ops = append(ops, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{
		Class: 1, Pod: &contractv1.Pod{Namespace: "a", Labels: web}}}})
	data, err := proto.Marshal(&contractv1.Delta{Generation: 1, Reset_: true, Operations: ops})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	nodes := make([]uint32, n)
	for i := range nodes {
		nodes[i] = uint32(i)
	}
	out := make([]int64, n)
	if err := g.Score(0, 1, nodes, out); err != nil {
		t.Fatal(err)
	}
	if err := g.Normalize(0, 1, nodes, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSpread(t *testing.T) {
	mine := &contractv1.Pod{Namespace: "a", Labels: web}
	elsewhere := &contractv1.Pod{Namespace: "b", Labels: web}
	other := &contractv1.Pod{Namespace: "a", Labels: map[string]string{"app": "db"}}
	leaving := &contractv1.Pod{Namespace: "a", Labels: web, Terminating: true}
	zone := func(name string) map[string]string {
		return map[string]string{"topology.kubernetes.io/zone": name}
	}
	old := func(name string) map[string]string {
		return map[string]string{"failure-domain.beta.kubernetes.io/zone": name}
	}
	plain := []*contractv1.Operation{node(0, nil), node(1, nil), node(2, nil)}
	counts := slices.Concat(plain, pods(0, 3, mine), pods(1, 1, mine))
	zoned := func(a, b map[string]string) []*contractv1.Operation {
		return slices.Concat([]*contractv1.Operation{node(0, a), node(1, a), node(2, b)}, pods(0, 3, mine), pods(1, 1, mine))
	}
	for _, c := range []struct {
		name string
		ops  []*contractv1.Operation
		want []int64
	}{
		{"T-7, FIL-7: no zones", slices.Concat(counts, []*contractv1.Operation{object("Service", "a", web)}), []int64{0, 6, 10}},
		{"T-7, FIL-7: zones", slices.Concat(zoned(zone("A"), zone("B")), []*contractv1.Operation{object("Service", "a", web)}), []int64{0, 2, 10}},
		{"PRD-21: old zone labels", slices.Concat(zoned(old("A"), old("B")), []*contractv1.Operation{object("Service", "a", web)}), []int64{0, 2, 10}},
		{"PRI-17: a node without a zone is judged by itself", slices.Concat(zoned(zone("A"), nil), []*contractv1.Operation{object("Service", "a", web)}), []int64{0, 2, 10}},
		{"PRI-13: replication controllers", slices.Concat(counts, []*contractv1.Operation{object("ReplicationController", "a", web)}), []int64{0, 6, 10}},
		{"PRI-14: replica sets", slices.Concat(counts, []*contractv1.Operation{object("ReplicaSet", "a", web)}), []int64{0, 6, 10}},
		{"PRI-15: nothing selects the pod", counts, []int64{10, 10, 10}},
		{"PRI-15: a selector of others", slices.Concat(counts, []*contractv1.Operation{object("Service", "a", map[string]string{"app": "db"})}), []int64{10, 10, 10}},
		{"a service without a selector takes no pod", slices.Concat(counts, []*contractv1.Operation{object("Service", "a", nil)}), []int64{10, 10, 10}},
		{"PRI-12: services of another namespace", slices.Concat(counts, []*contractv1.Operation{object("Service", "b", web)}), []int64{10, 10, 10}},
		{"PRI-19: pods of another namespace", slices.Concat(plain, pods(0, 2, elsewhere), pods(1, 1, mine), []*contractv1.Operation{object("Service", "a", web)}), []int64{10, 0, 10}},
		{"PRI-16: pods without the labels", slices.Concat(plain, pods(0, 2, other), pods(1, 1, mine), []*contractv1.Operation{object("Service", "a", web)}), []int64{10, 0, 10}},
		{"pods on their way out", slices.Concat(plain, pods(0, 2, leaving), pods(1, 1, mine), []*contractv1.Operation{object("Service", "a", web)}), []int64{10, 0, 10}},
		{"FIL-7: the maximum is 0", slices.Concat(plain, []*contractv1.Operation{object("Service", "a", web)}), []int64{10, 10, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scores(t, New(), 3, c.ops...); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// PRI-22: the function is the same, over services only.
func TestOverServices(t *testing.T) {
	mine := &contractv1.Pod{Namespace: "a", Labels: web}
	ops := slices.Concat([]*contractv1.Operation{node(0, nil), node(1, nil)}, pods(0, 1, mine))
	p := Over("Services", "Service")
	if got := scores(t, p, 2, slices.Concat(ops, []*contractv1.Operation{object("ReplicationController", "a", web)})...); !slices.Equal(got, []int64{10, 10}) {
		t.Errorf("controllers count: %v", got)
	}
	if got := scores(t, p, 2, slices.Concat(ops, []*contractv1.Operation{object("Service", "a", web)})...); !slices.Equal(got, []int64{0, 10}) {
		t.Errorf("services do not count: %v", got)
	}
}

// FIL-7 over many nodes, where scores come from a table, as over few, where
// they do not.
func TestManyNodesScoreAsFew(t *testing.T) {
	mine := &contractv1.Pod{Namespace: "a", Labels: web}
	var ops []*contractv1.Operation
	for i := range uint32(60) {
		labels := map[string]string{"topology.kubernetes.io/zone": fmt.Sprint(i % 3)}
		if i%10 == 9 {
			labels = nil
		}
		ops = append(ops, node(i, labels))
		ops = append(ops, pods(i, int(i%4), mine)...)
	}
	got := scores(t, New(), 60, append(ops, object("Service", "a", web))...)
	totals := map[uint32]int64{}
	for i := range uint32(60) {
		if i%10 != 9 {
			totals[i%3] += int64(i % 4)
		}
	}
	largest := max(totals[0], totals[1], totals[2])
	for i, score := range got {
		n := int64(i % 4)
		want := 10 * (3 - n) / 3
		if i%10 != 9 {
			want = int64((10*float64(3-n)/3)/3 + (10*float64(largest-totals[uint32(i%3)])/float64(largest))*2/3 + 1e-9)
		}
		if score != want {
			t.Errorf("node %d: %d, want %d", i, score, want)
		}
	}
}

// BenchmarkProject is what a decision costs the priority: the counts of 1,000
// nodes in three zones become scores.
func BenchmarkProject(b *testing.B) {
	s := &state{zones: map[zone]int32{}}
	nodes := make([]*sdk.Node, 1000)
	counts := make([]int64, len(nodes))
	for i := range nodes {
		nodes[i] = &sdk.Node{Index: uint32(i), Labels: map[string]string{"topology.kubernetes.io/zone": fmt.Sprint(i % 3)}}
		counts[i] = int64(i % 5)
	}
	scores := make([]int64, len(nodes))
	for b.Loop() {
		copy(scores, counts)
		project(nil, nil, s, nodes, scores)
	}
	if slices.Max(scores) == slices.Min(scores) {
		b.Fatal("every node scores alike")
	}
}
