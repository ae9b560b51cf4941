package sdk

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// encodePlaced is the delta of one pod of a class, as the host encodes it.
func encodePlaced(generation uint64, node, class uint32, name, uid string) []byte {
	field := func(out []byte, number protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), data)
	}
	number := func(out []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), v)
	}
	add := field(number(nil, 1, uint64(node)), 2, field(field(nil, 2, []byte(name)), 3, []byte(uid)))
	return field(number(nil, 1, generation), 3, field(nil, 3, number(add, 3, uint64(class))))
}

// What the short way reads, and what it does to the replica, is what the long way
// does; what it does not read is left to that one.
func TestPlacedIsReadAsAnyDelta(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	cluster := func() *Guest {
		g, err := GuestOf(Predicate{Name: "P", Filter: func(*Request) Verdict { return Fits() }})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{
			node(0, &contractv1.Node{Name: "zero"}), node(300, &contractv1.Node{Name: "far"}),
			class(1, &contractv1.Pod{Namespace: "d", Requests: &contractv1.Resources{MilliCpu: 5, Scalar: map[string]int64{"x/y": 1}}}), class(200, &contractv1.Pod{Namespace: "e"}),
		}})); err != nil {
			t.Fatal(err)
		}
		return g
	}
	// several is a delta with as many pods as a run of decisions places.
	several := encodePlaced(2, 0, 1, "p", "u")
	for k := range 63 {
		several = append(several, encodePlaced(2, uint32(300*(k%2)), 1+199*uint32(k%3%2), fmt.Sprint("p", k%40), fmt.Sprint("u", k%50))[2:]...)
	}
	after := append([]byte(nil), several...)
	after = append(after, encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Uid: "u"}}}}})...)
	long := make([]byte, 130)
	for i := range long {
		long[i] = 'l'
	}
	read := 0
	for _, tc := range []struct {
		name string
		data []byte
		want bool
	}{
		{"a pod", encodePlaced(2, 0, 1, "name", "0a1b2c3d-0000-4000-8000-000000000001"), true},
		{"far away", encodePlaced(1<<40, 300, 200, "n", "u"), true},
		{"without a name", encodePlaced(2, 0, 1, "", "u"), true},
		{"of no class", encodePlaced(2, 0, 0, "name", "u"), false},
		{"of a class that is not there", encodePlaced(2, 0, 9, "name", "u"), true},
		{"to a node that is not there", encodePlaced(2, 7, 1, "name", "u"), true},
		{"a long name", encodePlaced(2, 0, 1, string(long), "u"), false},
		{"two of them", append(encodePlaced(2, 0, 1, "a", "u"), encodePlaced(3, 0, 1, "b", "v")...), true},
		{"a run", several, true},
		{"a run without its generation", several[2:], true},
		{"a run and something else", after, false},
		{"in full", encode(t, &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{podAdd(0, &contractv1.Pod{Uid: "u"})}}), false},
		{"nothing", nil, false},
	} {
		if _, _, _, ok := readPlaced(tc.data, nil); ok != tc.want {
			t.Errorf("%s: read %t, want %t", tc.name, ok, tc.want)
		}
		for round := range 400 {
			data := append([]byte(nil), tc.data...)
			if round > 0 && len(data) > 0 {
				data[random.IntN(len(data))] = byte(random.IntN(256))
				data = data[:len(data)-random.IntN(2)*random.IntN(len(data))]
			}
			if _, _, _, ok := readPlaced(data, nil); !ok {
				continue
			}
			read++
			short, other := cluster(), cluster()
			err, want := short.cluster.apply(data), other.cluster.applyFields(data)
			if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Fatalf("%s: %x: %v, want %v (seed %d)", tc.name, data, err, want, seed)
			}
			if err != nil {
				continue
			}
			if !reflect.DeepEqual(short.cluster.nodes, other.cluster.nodes) || short.cluster.Generation != other.cluster.Generation {
				t.Fatalf("%s: %x: another replica (seed %d)", tc.name, data, seed)
			}
		}
	}
	if read < 200 {
		t.Errorf("%d deltas were read", read)
	}
}
