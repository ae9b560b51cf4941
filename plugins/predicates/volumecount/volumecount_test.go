package volumecount

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Claims count through the volume they are bound to, once a disk however many
// claims and pods lead to it (PRD-36).
func TestClaims(t *testing.T) {
	object := func(kind, namespace, name, bound string, volume *contractv1.Volume) *contractv1.Operation {
		return &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{
			Key: &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: name}, VolumeName: bound, Volume: volume}}}
	}
	ebs := func(id string) *contractv1.Volume {
		return &contractv1.Volume{Type: "awsElasticBlockStore", Id: id}
	}
	claim := func(name string) *contractv1.Volume {
		return &contractv1.Volume{Type: "persistentVolumeClaim", Id: name}
	}
	class := func(id uint32, volumes ...*contractv1.Volume) *contractv1.Operation {
		return &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: id, Pod: &contractv1.Pod{Namespace: "a", Volumes: volumes}}}}
	}
	g, err := sdk.GuestOf(New("MaxTestCount", "awsElasticBlockStore", 1))
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{
		object("PersistentVolume", "", "one", "", ebs("disk-1")),
		object("PersistentVolume", "", "two", "", ebs("disk-2")),
		object("PersistentVolumeClaim", "a", "to-one", "one", nil),
		object("PersistentVolumeClaim", "a", "to-two", "two", nil),
		object("PersistentVolumeClaim", "a", "unbound", "", nil),
		{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Node: &contractv1.Node{Name: "n"}}}},
		{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Pod: &contractv1.Pod{Uid: "u", Namespace: "a", Volumes: []*contractv1.Volume{claim("to-one")}}}}},
		class(1, claim("to-two")),
		class(2, claim("to-one")),
		class(3, ebs("disk-1")),
		class(4, claim("unbound"), claim("missing")),
		class(5, ebs("disk-2")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	for id, fit := range map[uint32]bool{1: false, 2: true, 3: true, 4: true, 5: false} {
		out := []uint32{0}
		if err := g.Filter(0, id, []uint32{0}, out); err != nil {
			t.Fatal(err)
		}
		if (out[0] == 0) != fit {
			t.Errorf("class %d: verdict %d, want fit %v", id, out[0], fit)
		}
	}
}
