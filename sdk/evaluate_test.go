package sdk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// posed is a question of an evaluation.
type posed struct {
	plugin int
	nodes  []uint32
}

// asking is a guest with plugins whose answers differ by node and class.
func asking(t testing.TB, nodes uint32) *Guest {
	t.Helper()
	g, err := GuestOf(
		Predicate{Name: "Odd", Filter: func(r *Request) Verdict {
			if r.Node.Index%3 == 1 {
				return Unfit("odd")
			}
			return Fits()
		}},
		Predicate{Name: "Few", Filter: func(r *Request) Verdict {
			if len(r.Node.Pods) > 2 {
				return Unfit("many", "pods")
			}
			return Fits()
		}},
		Priority{Name: "Index", Score: func(r *Request) int64 { return int64(r.Node.Index) - r.Pod.Requests.MilliCPU }},
		Predicate{Name: "Panics", Filter: func(*Request) Verdict { panic("on purpose") }},
	)
	if err != nil {
		t.Fatal(err)
	}
	delta := &contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{
		class(7, &contractv1.Pod{Labels: map[string]string{"app": "web"}, Requests: &contractv1.Resources{MilliCpu: 3}}),
	}}
	for i := range nodes {
		delta.Operations = append(delta.Operations, node(i, &contractv1.Node{Name: fmt.Sprint("n", i)}))
	}
	if err := g.Apply(encode(t, delta)); err != nil {
		t.Fatal(err)
	}
	return g
}

// Whatever is asked together is answered as it is one by one: narrowed by the
// filters before, and behind the delta that came along.
func TestEvaluateIsFilterAndScore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const nodes = 12
	g := asking(t, nodes)
	some := func() []uint32 {
		list := make([]uint32, random.IntN(8))
		for k := range list {
			list[k] = uint32(random.IntN(nodes))
		}
		return list
	}
	for round := range 500 {
		var delta []byte
		if random.IntN(2) == 0 {
			add := podAdd(uint32(random.IntN(nodes)), &contractv1.Pod{Name: "p", Uid: fmt.Sprint("u", random.IntN(100))})
			add.GetPodAdd().Class = 7
			delta = encode(t, &contractv1.Delta{Generation: uint64(round + 2), Operations: []*contractv1.Operation{add}})
		}
		shared := some()
		filters, scores := random.IntN(3), random.IntN(3)
		request := append([]uint32{7, uint32(filters), uint32(scores), uint32(len(shared))}, shared...)
		var asked []posed
		room := 1
		for k := range filters + scores {
			q := posed{plugin: k % 2, nodes: shared}
			if k >= filters {
				q.plugin = 2
			}
			if request = append(request, uint32(q.plugin)); random.IntN(2) == 0 {
				q.nodes = some()
				request = append(append(request, uint32(len(q.nodes))), q.nodes...)
			} else {
				request = append(request, allNodes)
			}
			asked = append(asked, q)
			room += len(q.nodes)
		}
		out := make([]uint64, room)
		if err := g.Evaluate(delta, request, out); err != nil {
			t.Fatal(err)
		}
		if int(out[0]) != len(asked) {
			t.Fatalf("%d of %d questions answered", out[0], len(asked))
		}
		verdicts, refused, at := viewOf[uint32](out[1:]), map[uint32]bool{}, 0
		for k, q := range asked {
			left := slices.DeleteFunc(slices.Clone(q.nodes), func(n uint32) bool { return refused[n] })
			if k < filters {
				want := make([]uint32, len(left))
				if err := g.Filter(q.plugin, 7, left, want); err != nil {
					t.Fatal(err)
				}
				got := slices.DeleteFunc(slices.Clone(verdicts[at:at+len(q.nodes)]), func(v uint32) bool { return v == leftOut })
				if !slices.Equal(got, want) {
					t.Fatalf("round %d, filter %d: %v, alone %v", round, k, got, want)
				}
				for i, n := range left {
					if want[i] != 0 {
						refused[n] = true
					}
				}
				at += len(q.nodes)
				continue
			}
			if k == filters {
				at = 1 + (at+1)/2
			}
			want := make([]int64, len(left))
			if err := g.Score(q.plugin, 7, left, want); err != nil {
				t.Fatal(err)
			}
			var got []int64
			for i, s := range viewOf[int64](out[at : at+len(q.nodes)]) {
				if !refused[q.nodes[i]] {
					got = append(got, s)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, score %d: %v, alone %v", round, k, got, want)
			}
			at += len(q.nodes)
		}
	}
}

func TestEvaluateStops(t *testing.T) {
	g := asking(t, 3)
	out := make([]uint64, 32)
	for _, c := range []struct {
		name    string
		request []uint32
		want    uint64
		err     error
	}{
		{"panics", []uint32{7, 3, 0, 2, 0, 1, 0, allNodes, 3, allNodes, 1, allNodes}, 1, nil},
		{"a priority among the filters", []uint32{7, 2, 0, 1, 0, 0, allNodes, 2, allNodes}, 1, nil},
		{"no such plugin", []uint32{7, 0, 1, 1, 0, 99, allNodes}, 0, nil},
		{"no such node", []uint32{7, 1, 0, 1, 77, 0, allNodes}, 0, nil},
		{"no such class", []uint32{8, 1, 0, 1, 0, 0, allNodes}, 0, ErrClass},
		{"short", []uint32{7, 1, 0}, 0, ErrDelta},
		{"more nodes than there are words", []uint32{7, 1, 0, 9, 0}, 0, ErrDelta},
		{"more questions than there are words", []uint32{7, 1 << 31, 1 << 31, 0}, 0, ErrDelta},
		{"no room", []uint32{7, 1, 0, 0, 0, 1 << 30}, 0, ErrDelta},
	} {
		out[0] = 0
		if err := g.Evaluate(nil, c.request, out); !errors.Is(err, c.err) || out[0] != c.want {
			t.Errorf("%s: %d answered, %v; want %d, %v", c.name, out[0], err, c.want, c.err)
		}
	}
	if err := g.Evaluate(nil, []uint32{7, 1, 0, 3, 0, 1, 2, 0, allNodes}, out[:2]); !errors.Is(err, ErrDelta) {
		t.Errorf("no room for the answers: %v", err)
	}
	if err := g.Evaluate([]byte{0xff}, []uint32{7, 0, 0, 0}, out); !errors.Is(err, ErrDelta) {
		t.Errorf("a delta that is none: %v", err)
	}
}

// A pod of a class shares what the class has, and is nothing without it.
func TestPodOfAClass(t *testing.T) {
	g := asking(t, 2)
	add := podAdd(1, &contractv1.Pod{Name: "p", Uid: "u", StartTimeUnix: 9})
	add.GetPodAdd().Class = 7
	if err := g.Apply(encode(t, &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{add}})); err != nil {
		t.Fatal(err)
	}
	n := g.cluster.Node(1)
	p := n.Pods["u"]
	if p == nil || p.Name != "p" || p.NodeName != "n1" || p.Labels["app"] != "web" || p.StartTimeUnix != 9 || n.Requested.MilliCPU != 3 || n.Requested.Pods != 1 {
		t.Errorf("pod %+v on %+v", p, n)
	}
	if of := g.cluster.classes[7]; of.UID != "" || of.NodeName != "" {
		t.Errorf("the class became %+v", of)
	}
	add.GetPodAdd().Class = 8
	if err := g.Apply(encode(t, &contractv1.Delta{Generation: 3, Operations: []*contractv1.Operation{add}})); !errors.Is(err, ErrDelta) {
		t.Errorf("a pod of no class: %v", err)
	}
}

func FuzzEvaluate(f *testing.F) {
	f.Add([]byte{7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 2, 0, 0, 0, 255, 255, 255, 255}, uint8(4))
	g := asking(f, 4)
	f.Fuzz(func(_ *testing.T, data []byte, room uint8) {
		request := make([]uint32, len(data)/4)
		for k := range request {
			request[k] = uint32(data[4*k]) | uint32(data[4*k+1])<<8 | uint32(data[4*k+2])<<16 | uint32(data[4*k+3])<<24
		}
		_ = g.Evaluate(nil, request, make([]uint64, room))
	})
}

// Pods that differ in what is their own share the rest, and are what they are when
// each is decoded by itself.
func TestPodsShareTheirShape(t *testing.T) {
	g := asking(t, 1)
	random := rand.New(rand.NewPCG(5, 6))
	pods := map[string]*contractv1.Pod{}
	for i := range 300 {
		p := &contractv1.Pod{
			Namespace: "a", Name: fmt.Sprint("p", i), Uid: fmt.Sprint("u", i), NodeName: "n0", StartTimeUnix: int64(random.IntN(3)),
			Labels: map[string]string{"app": fmt.Sprint("app", random.IntN(3)), "x": "y"}, Priority: int32(random.IntN(2)),
			Requests: &contractv1.Resources{MilliCpu: int64(random.IntN(4)), Scalar: map[string]int64{"gpu": int64(random.IntN(2))}},
		}
		pods[p.GetUid()] = p
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: uint64(i + 2), Operations: []*contractv1.Operation{podAdd(0, p)}})); err != nil {
			t.Fatal(err)
		}
	}
	for uid, got := range g.cluster.Node(0).Pods {
		want := &Pod{}
		data, err := proto.Marshal(pods[uid])
		if err != nil {
			t.Fatal(err)
		}
		if err := decodePod(data, want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("pod %s is %+v, want %+v", uid, got, want)
		}
	}
	if len(g.cluster.Node(0).Pods) != 300 || g.cluster.shapes.count >= 300 {
		t.Errorf("%d pods of %d shapes", len(g.cluster.Node(0).Pods), g.cluster.shapes.count)
	}
}
