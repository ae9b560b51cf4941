package sdk

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Every field of the contract reaches the plugin: a message with all of its
// fields set leaves none of the decoded structure empty.
func TestDecodeLeavesNothingOut(t *testing.T) {
	pod, object, node := &contractv1.Pod{}, &contractv1.Object{}, &contractv1.Node{}
	for _, m := range []proto.Message{pod, object, node} {
		fill(m.ProtoReflect())
	}
	var p Pod
	if err := decodePod(marshalled(t, pod), &p); err != nil {
		t.Fatal(err)
	}
	nothingEmpty(t, reflect.ValueOf(p), "Pod")
	var n Node
	if err := decodeNode(marshalled(t, node), &n); err != nil {
		t.Fatal(err)
	}
	// The guest fills in the others.
	n.Index, n.Pods, n.Requested, n.NonZeroMilliCPU, n.NonZeroMemory = 1, map[string]*Pod{"u": &p}, n.Capacity, 1, 1
	nothingEmpty(t, reflect.ValueOf(n), "Node")
	o, err := decodeObject(marshalled(t, object))
	if err != nil {
		t.Fatal(err)
	}
	nothingEmpty(t, reflect.ValueOf(*o), "Object")
}

func marshalled(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fill sets every field of a message, lists to one item.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), scalar(f.MapValue()))
		case f.IsList() && f.Message() != nil:
			item := m.Mutable(f).List().NewElement()
			fill(item.Message())
			m.Mutable(f).List().Append(item)
		case f.IsList():
			m.Mutable(f).List().Append(scalar(f))
		case f.Message() != nil:
			fill(m.Mutable(f).Message())
		default:
			m.Set(f, scalar(f))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	}
	panic(f.FullName())
}

func nothingEmpty(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is empty", path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		nothingEmpty(t, v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				nothingEmpty(t, v.Field(i), path+"."+f.Name)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			nothingEmpty(t, v.Index(i), path+"[]")
		}
	}
}

// A refusal that no eviction would help is another verdict than one of the same
// words that some would.
func TestUnresolvable(t *testing.T) {
	g, err := GuestOf(Predicate{Name: "P", Filter: func(r *Request) Verdict {
		if r.Node.Unschedulable {
			return Never("no")
		}
		return Unfit("no")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(encode(t, &contractv1.Delta{Generation: 1, Operations: []*contractv1.Operation{
		node(0, &contractv1.Node{Name: "a"}), node(1, &contractv1.Node{Name: "b", Unschedulable: true}),
		node(2, &contractv1.Node{Name: "c", Unschedulable: true}), class(1, &contractv1.Pod{}),
	}})); err != nil {
		t.Fatal(err)
	}
	out := make([]uint32, 3)
	if err := g.Filter(0, 1, []uint32{0, 1, 2}, out); err != nil {
		t.Fatal(err)
	}
	if out[0] == out[1] || out[1] != out[2] || g.Unresolvable(0, out[0]) || !g.Unresolvable(0, out[1]) {
		t.Errorf("verdicts %v, unresolvable %t and %t", out, g.Unresolvable(0, out[0]), g.Unresolvable(0, out[1]))
	}
	if g.Reasons(0, out[0])[0] != "no" || g.Reasons(0, out[1])[0] != "no" || g.Unresolvable(0, 99) {
		t.Error("words")
	}
}
