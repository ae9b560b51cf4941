package sdk

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func encode(t testing.TB, d *contractv1.Delta) []byte {
	t.Helper()
	data, err := proto.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func node(index uint32, n *contractv1.Node) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: index, Node: n}}}
}

func podAdd(index uint32, p *contractv1.Pod) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: index, Pod: p}}}
}

func class(number uint32, p *contractv1.Pod) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: number, Pod: p}}}
}

func object(kind, name string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{Key: &contractv1.ObjectKey{Kind: kind, Namespace: "d", Name: name}}}}
}

// The hand-written decoder reads every field of the contract.
func TestDecodeReadsEveryField(t *testing.T) {
	term := &contractv1.NodeSelectorTerm{
		MatchExpressions: []*contractv1.Requirement{{Key: "a", Operator: "In", Values: []string{"b", "c"}}},
		MatchFields:      []*contractv1.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}},
	}
	resources := &contractv1.Resources{MilliCpu: -1, Memory: 1 << 40, EphemeralStorage: 3, Pods: 4, Scalar: map[string]int64{"x/y": 5}}
	affinity := &contractv1.NodeAffinity{HasRequired: true, Required: []*contractv1.NodeSelectorTerm{term}, Preferred: []*contractv1.PreferredTerm{{Weight: 7, Term: term}}}
	volume := &contractv1.Volume{Name: "v", Type: "rbd", Id: "p/i", ReadOnly: true, Monitors: []string{"m1", "m2"}}
	pod := &contractv1.Pod{
		Namespace: "d", Name: "p", Uid: "u", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		NodeName: "n", SchedulerName: "s", Priority: -9, NodeSelector: map[string]string{"k": "v"}, NodeAffinity: affinity,
		Tolerations:    []*contractv1.Toleration{{Key: "k", Operator: "Equal", Value: "v", Effect: "NoExecute"}},
		Containers:     []*contractv1.Container{{Name: "c", Image: "i"}},
		InitContainers: []*contractv1.Container{{Name: "ci", Image: "ii"}},
		HostPorts:      []*contractv1.HostPort{{Port: 80, Protocol: "TCP", HostIp: "1.2.3.4"}},
		Volumes:        []*contractv1.Volume{volume}, Requests: resources, NonZeroMilliCpu: 100, NonZeroMemory: 200,
		Owners:      []*contractv1.OwnerReference{{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", Uid: "ru", Controller: true}},
		Terminating: true, StartTimeUnix: 1700000000,
	}
	g := newGuest(nil)
	err := g.Apply(encode(t, &contractv1.Delta{Generation: 5, Operations: []*contractv1.Operation{
		node(3, &contractv1.Node{
			Name: "n", Uid: "nu", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}, Unschedulable: true,
			Taints:   []*contractv1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}},
			Capacity: resources, Allocatable: resources, Images: []*contractv1.Image{{Names: []string{"a", "b"}, SizeBytes: 9}},
		}),
		podAdd(3, pod),
		{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{
			Key: &contractv1.ObjectKey{Kind: "PersistentVolume", Name: "pv"}, Labels: map[string]string{"z": "1"}, HasSelector: true,
			Selector:   &contractv1.Selector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []*contractv1.Requirement{{Key: "q", Operator: "Exists"}}},
			VolumeName: "vn", Volume: volume, NodeAffinity: affinity,
		}}},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	wantResources := Resources{MilliCPU: -1, Memory: 1 << 40, EphemeralStorage: 3, Pods: 4, Scalar: map[string]int64{"x/y": 5}}
	wantTerm := NodeSelectorTerm{
		MatchExpressions: []Requirement{{Key: "a", Operator: "In", Values: []string{"b", "c"}}},
		MatchFields:      []Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}},
	}
	wantAffinity := &NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{wantTerm}, Preferred: []PreferredTerm{{Weight: 7, Term: wantTerm}}}
	wantVolume := Volume{Name: "v", Type: "rbd", ID: "p/i", ReadOnly: true, Monitors: []string{"m1", "m2"}}
	wantPod := &Pod{
		Namespace: "d", Name: "p", UID: "u", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		NodeName: "n", SchedulerName: "s", Priority: -9, NodeSelector: map[string]string{"k": "v"}, NodeAffinity: wantAffinity,
		Tolerations:    []Toleration{{Key: "k", Operator: "Equal", Value: "v", Effect: "NoExecute"}},
		Containers:     []Container{{Name: "c", Image: "i"}},
		InitContainers: []Container{{Name: "ci", Image: "ii"}},
		HostPorts:      []HostPort{{Port: 80, Protocol: "TCP", HostIP: "1.2.3.4"}},
		Volumes:        []Volume{wantVolume}, Requests: wantResources, NonZeroMilliCPU: 100, NonZeroMemory: 200,
		Owners:      []OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "ru", Controller: true}},
		Terminating: true, StartTimeUnix: 1700000000,
	}
	want := &Node{
		Index: 3, Name: "n", UID: "nu", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}, Unschedulable: true,
		Taints: []Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}, Capacity: wantResources, Allocatable: wantResources,
		Images:    []Image{{Names: []string{"a", "b"}, SizeBytes: 9}},
		Pods:      map[string]*Pod{"u": wantPod},
		Requested: Resources{MilliCPU: -1, Memory: 1 << 40, EphemeralStorage: 3, Pods: 1, Scalar: map[string]int64{"x/y": 5}}, NonZeroMilliCPU: 100, NonZeroMemory: 200,
	}
	if got := g.cluster.Node(3); !reflect.DeepEqual(got, want) {
		t.Errorf("node:\n%+v\nwant\n%+v", got, want)
	}
	wantObject := &Object{
		Kind: "PersistentVolume", Name: "pv", Labels: map[string]string{"z": "1"},
		Selector:   &Selector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []Requirement{{Key: "q", Operator: "Exists"}}},
		VolumeName: "vn", Volume: &wantVolume, NodeAffinity: wantAffinity,
	}
	if got := g.cluster.Object("PersistentVolume", "", "pv"); !reflect.DeepEqual(got, wantObject) {
		t.Errorf("object:\n%+v\nwant\n%+v", got, wantObject)
	}
	if g.cluster.Generation != 5 {
		t.Errorf("generation %d", g.cluster.Generation)
	}
}

// SCH-20: the replica's sums follow its pods.
func TestReplicaKeepsSums(t *testing.T) {
	g := newGuest(nil)
	pod := func(uid string, cpu int64) *contractv1.Pod {
		return &contractv1.Pod{Uid: uid, Requests: &contractv1.Resources{MilliCpu: cpu, Scalar: map[string]int64{"g": 1}}, NonZeroMilliCpu: max(cpu, 100)}
	}
	for _, step := range []struct {
		name      string
		op        *contractv1.Operation
		cpu, pods int64
		nonZero   int64
	}{
		{"node", node(0, &contractv1.Node{Name: "n"}), 0, 0, 0},
		{"add", podAdd(0, pod("a", 50)), 50, 1, 100},
		{"add another", podAdd(0, pod("b", 200)), 250, 2, 300},
		{"replace", podAdd(0, pod("a", 500)), 700, 2, 700},
		{"node again", node(0, &contractv1.Node{Name: "n", Unschedulable: true}), 700, 2, 700},
		{"remove", &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Uid: "b"}}}, 500, 1, 500},
		{"remove what is not there", &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Uid: "x"}}}, 500, 1, 500},
	} {
		if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{step.op}})); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		n := g.cluster.Node(0)
		if n.Requested.MilliCPU != step.cpu || n.Requested.Pods != step.pods || n.NonZeroMilliCPU != step.nonZero || n.Requested.Scalar["g"] != step.pods {
			t.Errorf("%s: %+v non-zero %d", step.name, n.Requested, n.NonZeroMilliCPU)
		}
	}
	remove := &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: 0}}
	if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{remove}})); err != nil || g.cluster.Node(0) != nil {
		t.Errorf("node is still there (%v)", err)
	}
	if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{podAdd(0, pod("a", 1))}})); !errors.Is(err, ErrDelta) {
		t.Errorf("pod on no node: %v", err)
	}
	if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{node(1<<31, &contractv1.Node{})}})); !errors.Is(err, ErrDelta) {
		t.Errorf("index out of range: %v", err)
	}
}

// Prepare runs once a class and generation of what the plugin reads.
func TestPrepareIsCached(t *testing.T) {
	counts := map[string]int{}
	prepare := func(name string) func(*Cluster, *Pod) any {
		return func(*Cluster, *Pod) any { counts[name]++; return counts[name] }
	}
	score := func(r *Request) int64 { return int64(r.State.(int)) }
	g, err := GuestOf(
		Priority{Name: "Plain", Prepare: prepare("Plain"), Score: score},
		Priority{Name: "Reads", Reads: []string{"Service"}, Prepare: prepare("Reads"), Score: score},
		Priority{Name: "Wide", Scope: ScopeCluster, Prepare: prepare("Wide"), Score: score},
	)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() []int64 {
		var got []int64
		for i := range 3 {
			out := []int64{0}
			if err := g.Score(i, 1, []uint32{0}, out); err != nil {
				t.Fatal(err)
			}
			got = append(got, out[0])
		}
		return got
	}
	apply := func(ops ...*contractv1.Operation) {
		if err := g.Apply(encode(t, &contractv1.Delta{Operations: ops})); err != nil {
			t.Fatal(err)
		}
	}
	apply(node(0, &contractv1.Node{}), class(1, &contractv1.Pod{Name: "p"}))
	for _, step := range []struct {
		name string
		op   *contractv1.Operation
		want []int64
	}{
		{"first", class(2, &contractv1.Pod{}), []int64{1, 1, 1}},
		{"a node changes", node(0, &contractv1.Node{}), []int64{1, 1, 2}},
		{"an object that one reads", object("Service", "s"), []int64{1, 2, 3}},
		{"an object that none reads", object("PersistentVolume", "v"), []int64{1, 2, 4}},
		{"the class changes", class(1, &contractv1.Pod{}), []int64{2, 3, 5}},
	} {
		apply(step.op)
		if got := ask(); !slices.Equal(got, step.want) || !slices.Equal(ask(), step.want) {
			t.Errorf("%s: prepared %d times, want %d", step.name, got, step.want)
		}
	}
}

func TestGuestErrors(t *testing.T) {
	g, err := GuestOf(
		Predicate{Name: "P", Filter: func(r *Request) Verdict {
			if r.Node.Name == "bad" {
				panic("on purpose")
			}
			return Unfit("a\nb", "c")
		}},
		Priority{Name: "S", Score: func(*Request) int64 { return 1 }},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{
		node(0, &contractv1.Node{Name: "good"}), node(1, &contractv1.Node{Name: "bad"}), class(1, &contractv1.Pod{}),
	}})); err != nil {
		t.Fatal(err)
	}
	out := make([]uint32, 1)
	for _, tc := range []struct {
		name  string
		i     int
		class uint32
		node  uint32
		want  error
	}{
		{"no such plugin", 9, 1, 0, ErrPlugin}, {"negative", -1, 1, 0, ErrPlugin}, {"a priority", 1, 1, 0, ErrPlugin},
		{"no such class", 0, 2, 0, ErrClass}, {"no such node", 0, 1, 7, ErrNode}, {"panic", 0, 1, 1, ErrPanic}, {"fine", 0, 1, 0, nil},
	} {
		if err := g.Filter(tc.i, tc.class, []uint32{tc.node}, out); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if got := g.Reasons(0, out[0]); !slices.Equal(got, []string{"a b", "c"}) {
		t.Errorf("reasons %q", got)
	}
	if g.Reasons(0, 99) != nil || g.Reasons(0, 0) != nil {
		t.Error("reasons of a verdict that never was")
	}
	for _, bad := range []any{Predicate{Name: "x"}, Priority{Name: "x"}, Predicate{Filter: func(*Request) Verdict { return Fits() }},
		Priority{Name: "x", Normalize: NormalizePlugin, Score: func(*Request) int64 { return 0 }}, 7} {
		if _, err := GuestOf(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// Distinct reasons without end do not grow the table without end.
func TestReasonsAreBounded(t *testing.T) {
	p := &servedState{served: served{name: "P"}, ids: map[reasonKey]uint32{}}
	for i := range maxReasons * 2 {
		if id := p.reasonID(Unfit(string(rune(0x4e00 + i)))); id == 0 || id > maxReasons {
			t.Fatalf("id %d after %d reasons", id, i)
		}
	}
	if len(p.reasons) != maxReasons {
		t.Errorf("%d reasons are kept, want %d", len(p.reasons), maxReasons)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte{})
	f.Add(encode(f, &contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{
		node(1, &contractv1.Node{Name: "n", Labels: map[string]string{"a": "b"}}), podAdd(1, &contractv1.Pod{Uid: "u"}), class(1, &contractv1.Pod{}), object("Service", "s"),
	}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := newGuest(nil)
		err := g.Apply(data)
		if err != nil && !errors.Is(err, ErrDelta) {
			t.Errorf("unexpected error %v", err)
		}
		// What protobuf takes and writes again must be read alike.
		d := &contractv1.Delta{}
		if proto.Unmarshal(data, d) != nil {
			return
		}
		g = newGuest(nil)
		if err := g.Apply(encode(t, d)); err == nil && g.cluster.Generation != d.GetGeneration() {
			t.Errorf("generation %d, want %d", g.cluster.Generation, d.GetGeneration())
		}
	})
}
