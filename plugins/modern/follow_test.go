package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// drawn is a cluster that changes at random: few values of everything, so that
// pods and terms meet.
type drawn struct {
	*rand.Rand
	zones   []string
	nodes   map[uint32]*contractv1.Node
	pods    map[uint32]map[string]*contractv1.Pod
	objects []*contractv1.Operation
	uid     int
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (d *drawn) labels() map[string]string {
	out := map[string]string{}
	if d.IntN(4) > 0 {
		out["app"] = one(d.Rand, "a", "b")
	}
	if d.IntN(3) == 0 {
		out["tier"] = one(d.Rand, "x", "y")
	}
	return out
}

func (d *drawn) selector() (bool, *contractv1.Selector) {
	switch d.IntN(6) {
	case 0:
		return false, nil
	case 1:
		return true, &contractv1.Selector{}
	case 2:
		return true, &contractv1.Selector{MatchExpressions: []*contractv1.Requirement{{Key: "tier", Operator: "NotIn", Values: []string{"x"}}}}
	}
	return true, &contractv1.Selector{MatchLabels: map[string]string{"app": one(d.Rand, "a", "b")}}
}

func (d *drawn) key() string { return one(d.Rand, "zone", "kubernetes.io/hostname", "rack") }

func (d *drawn) terms() (out []*contractv1.PodAffinityTerm) {
	for range d.IntN(3) {
		t := &contractv1.PodAffinityTerm{TopologyKey: d.key(), Weight: int32(1 + d.IntN(9)), Namespaces: []string{one(d.Rand, "d", "e")}}
		t.HasSelector, t.Selector = d.selector()
		if d.IntN(3) == 0 {
			t.HasNamespaceSelector, t.NamespaceSelector = d.selector()
		}
		out = append(out, t)
	}
	return out
}

func (d *drawn) affinity() *contractv1.PodAffinity {
	if d.IntN(2) == 0 {
		return nil
	}
	return &contractv1.PodAffinity{Required: d.terms(), Preferred: d.terms()}
}

func (d *drawn) pod() *contractv1.Pod {
	d.uid++
	p := &contractv1.Pod{
		Namespace: one(d.Rand, "d", "e"), Name: fmt.Sprint("p", d.uid), Uid: fmt.Sprint("u", d.uid), Labels: d.labels(),
		PodAffinity: d.affinity(), PodAntiAffinity: d.affinity(), Terminating: d.IntN(8) == 0,
	}
	if d.IntN(3) == 0 {
		p.NodeSelector = map[string]string{"pool": "1"}
	}
	for range d.IntN(3) {
		c := &contractv1.TopologySpreadConstraint{
			MaxSkew: int32(1 + d.IntN(2)), TopologyKey: d.key(), WhenUnsatisfiable: one(d.Rand, "DoNotSchedule", "ScheduleAnyway"),
			MinDomains: int32(d.IntN(4)), NodeAffinityPolicy: one(d.Rand, "", "Honor", "Ignore"), NodeTaintsPolicy: one(d.Rand, "", "Honor", "Ignore"),
		}
		c.HasSelector, c.Selector = d.selector()
		if d.IntN(3) == 0 {
			c.MatchLabelKeys = []string{"tier"}
		}
		p.TopologySpread = append(p.TopologySpread, c)
	}
	return p
}

func (d *drawn) node(index uint32) *contractv1.Node {
	n := &contractv1.Node{Name: fmt.Sprint("n", index), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprint("n", index)}}
	if d.IntN(5) > 0 {
		n.Labels["zone"] = one(d.Rand, d.zones...)
	}
	if d.IntN(2) == 0 {
		n.Labels["rack"] = one(d.Rand, "", "r1", "r2")
	}
	if d.IntN(2) == 0 {
		n.Labels["pool"] = "1"
	}
	if d.IntN(4) == 0 {
		n.Taints = []*contractv1.Taint{{Key: "t", Effect: "NoSchedule"}}
	}
	return n
}

// step changes something.
func (d *drawn) step() *contractv1.Operation {
	index := uint32(d.IntN(8))
	switch what := d.IntN(10); {
	case d.nodes[index] == nil || what == 0:
		if d.pods[index] == nil {
			d.pods[index] = map[string]*contractv1.Pod{}
		}
		d.nodes[index] = d.node(index)
		return setNode(index, d.nodes[index])
	case what == 1:
		delete(d.nodes, index)
		delete(d.pods, index)
		return &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: index}}
	case what < 4 && len(d.pods[index]) > 0:
		uid := slices.Sorted(maps.Keys(d.pods[index]))[0]
		delete(d.pods[index], uid)
		return &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: index, Uid: uid}}}
	}
	p := d.pod()
	d.pods[index][p.Uid] = p
	return addPod(index, p)
}

func setNode(index uint32, n *contractv1.Node) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: index, Node: n}}}
}

func addPod(index uint32, p *contractv1.Pod) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: index, Pod: p}}}
}

func apply(t *testing.T, g *sdk.Guest, ops ...*contractv1.Operation) {
	t.Helper()
	data, err := proto.Marshal(&contractv1.Delta{Generation: 1, Operations: ops})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
}

// answers are what a cluster-scoped plugin says of each node: a verdict's words or
// a raw score; and normalised scores over all of them.
func answers(t *testing.T, g *sdk.Guest, i int, p sdk.PluginInfo, class uint32, nodes []uint32) (each []string, normalised []int64) {
	t.Helper()
	if p.Kind == sdk.KindPredicate {
		out := make([]uint32, len(nodes))
		if err := g.Filter(i, class, nodes, out); err != nil {
			t.Fatal(err)
		}
		for _, v := range out {
			each = append(each, fmt.Sprint(g.Reasons(i, v), g.Unresolvable(i, v)))
		}
		return each, nil
	}
	scores := make([]int64, len(nodes))
	if err := g.Score(i, class, nodes, scores); err != nil {
		t.Fatal(err)
	}
	for _, s := range scores {
		each = append(each, fmt.Sprint(s))
	}
	if p.Normalize == sdk.NormalizePlugin || p.Normalize == sdk.NormalizePluginNonzero {
		if err := g.Normalize(i, class, nodes, scores); err != nil {
			t.Fatal(err)
		}
	}
	return each, scores
}

// A guest that has followed changes answers as one that sees the cluster for the
// first time; and whoever keeps what it answered, but for nodes that changed or
// that it says have moved, has the same.
func TestFollowedIsFresh(t *testing.T) {
	for seed := range uint64(60) {
		d := &drawn{Rand: rand.New(rand.NewPCG(seed, 1)), zones: []string{"1", "2", "3"}, nodes: map[uint32]*contractv1.Node{}, pods: map[uint32]map[string]*contractv1.Pod{}}
		if seed%3 == 0 { // most nodes are in one
			d.zones = []string{"1", "1", "1", "1", "2"}
		}
		for _, name := range []string{"d", "e"} {
			d.objects = append(d.objects, &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{
				Key: &contractv1.ObjectKey{Kind: "Namespace", Name: name}, Labels: d.labels()}}})
			has, selector := d.selector()
			d.objects = append(d.objects, &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{
				Key: &contractv1.ObjectKey{Kind: "Service", Namespace: name, Name: "s"}, HasSelector: has, Selector: selector}}})
		}
		classes := slices.Clone(d.objects)
		for class := range uint32(4) {
			p := d.pod()
			p.Terminating = false
			classes = append(classes, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: class + 1, Pod: p}}})
		}
		followed := sdk.NewGuest()
		apply(t, followed, classes...)
		type asked struct {
			plugin int
			class  uint32
		}
		kept, since := map[asked]map[uint32]string{}, map[asked]uint64{}
		for step := range 25 {
			var touched []uint32
			for range 1 + d.IntN(3) {
				op := d.step()
				apply(t, followed, op)
				touched = append(touched, op.GetNodeSet().GetIndex(), op.GetNodeRemove(), op.GetPodAdd().GetNode(), op.GetPodRemove().GetNode())
			}
			fresh := sdk.NewGuest()
			apply(t, fresh, classes...)
			nodes := slices.Sorted(maps.Keys(d.nodes))
			for _, n := range nodes {
				apply(t, fresh, setNode(n, d.nodes[n]))
				for _, p := range d.pods[n] {
					apply(t, fresh, addPod(n, p))
				}
			}
			for i, p := range followed.Plugins() {
				if p.Scope != sdk.ScopeCluster || p.Kind != sdk.KindPredicate && p.Kind != sdk.KindPriority {
					continue
				}
				for class := range uint32(4) {
					key := asked{i, class + 1}
					now, moved, all, err := followed.Moved(i, class+1, since[key])
					if err != nil {
						t.Fatal(err)
					}
					since[key] = now
					moved = slices.Clone(moved)
					got, gotNorm := answers(t, followed, i, p, class+1, nodes)
					want, wantNorm := answers(t, fresh, i, p, class+1, nodes)
					if !slices.Equal(got, want) || !slices.Equal(gotNorm, wantNorm) {
						t.Fatalf("seed %d step %d: %s class %d: followed %v %v, fresh %v %v", seed, step, p.Name, class, got, gotNorm, want, wantNorm)
					}
					before := kept[key]
					kept[key] = map[uint32]string{}
					for k, n := range nodes {
						kept[key][n] = want[k]
						if !all && !slices.Contains(moved, n) && !slices.Contains(touched, n) && before[n] != want[k] {
							t.Fatalf("seed %d step %d: %s class %d: node %d said %s, says %s, and did not move", seed, step, p.Name, class, n, before[n], want[k])
						}
					}
				}
			}
		}
	}
}

// Pods that plugins say are aloof change no answer about others of which they say so,
// whatever pods there are: not on their own node either, neither when they come nor
// when they go.
func TestAloofPodsChangeNothing(t *testing.T) {
	found := 0
	for seed := range uint64(200) {
		d := &drawn{Rand: rand.New(rand.NewPCG(seed, 2)), zones: []string{"1", "2", "3"}, nodes: map[uint32]*contractv1.Node{}, pods: map[uint32]map[string]*contractv1.Pod{}}
		g := sdk.NewGuest()
		for class := range uint32(4) {
			p := d.pod()
			p.Terminating = false
			if d.IntN(2) == 0 {
				p.PodAffinity, p.PodAntiAffinity = nil, nil
			}
			apply(t, g, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: class + 1, Pod: p}}})
		}
		for range 30 {
			apply(t, g, d.step())
		}
		nodes := slices.Sorted(maps.Keys(d.nodes))
		if len(nodes) == 0 {
			continue
		}
		for i, p := range g.Plugins() {
			if p.Kind != sdk.KindPredicate && p.Kind != sdk.KindPriority {
				continue
			}
			var aloof []uint32
			for class := range uint32(4) {
				is, err := g.Aloof(i, class+1)
				if err != nil {
					t.Fatal(err)
				}
				if is {
					aloof = append(aloof, class+1)
				}
			}
			for _, comes := range aloof {
				var before []string
				for _, class := range aloof {
					each, norm := answers(t, g, i, p, class, nodes)
					before = append(before, fmt.Sprint(each, norm))
				}
				node := nodes[d.IntN(len(nodes))]
				same := func(when string) {
					for k, class := range aloof {
						each, norm := answers(t, g, i, p, class, nodes)
						if after := fmt.Sprint(each, norm); after != before[k] {
							t.Fatalf("seed %d: %s says of class %d, %s a pod of class %d on node %d, %s, and said %s", seed, p.Name, class, when, comes, node, after, before[k])
						}
					}
					found++
				}
				apply(t, g, &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: node, Class: comes, Pod: &contractv1.Pod{Name: "n", Uid: "new"}}}})
				same("with")
				apply(t, g, &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: node, Uid: "new"}}})
				same("after")
			}
		}
	}
	if found < 100 {
		t.Errorf("%d times a pod was aloof", found)
	}
}
