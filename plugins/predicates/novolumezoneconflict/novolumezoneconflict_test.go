package novolumezoneconflict

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	oldZone   = "failure-domain.beta.kubernetes.io/zone"
	oldRegion = "failure-domain.beta.kubernetes.io/region"
	newZone   = "topology.kubernetes.io/zone"
)

// verdict asks about one node and a pod with the claim "data".
func verdict(t *testing.T, node map[string]string, objects ...*contractv1.Object) []string {
	t.Helper()
	g, err := sdk.GuestOf(New())
	if err != nil {
		t.Fatal(err)
	}
	ops := []*contractv1.Operation{
		{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Node: &contractv1.Node{Name: "n", Labels: node}}}},
		{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: &contractv1.Pod{Namespace: "a", Volumes: []*contractv1.Volume{
			{Name: "inline", Type: "gcePersistentDisk", Id: "disk"}, // PRD-20: ignored
			{Name: "v", Type: "persistentVolumeClaim", Id: "data"},
		}}}}},
	}
	for _, o := range objects {
		ops = append(ops, &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: o}})
	}
	data, err := proto.Marshal(&contractv1.Delta{Generation: 1, Reset_: true, Operations: ops})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	out := []uint32{0}
	if err := g.Filter(0, 1, []uint32{0}, out); err != nil {
		t.Fatal(err)
	}
	return g.Reasons(0, out[0])
}

func claim(volume string) *contractv1.Object {
	return &contractv1.Object{Key: &contractv1.ObjectKey{Kind: "PersistentVolumeClaim", Namespace: "a", Name: "data"}, VolumeName: volume}
}

func volume(labels map[string]string) *contractv1.Object {
	return &contractv1.Object{Key: &contractv1.ObjectKey{Kind: "PersistentVolume", Name: "pv"}, Labels: labels}
}

func TestFilter(t *testing.T) {
	type m = map[string]string
	const conflict = "node(s) had no available volume zone"
	for _, c := range []struct {
		name    string
		node    m
		objects []*contractv1.Object
		unfit   string
	}{
		{"T-4, PRD-22: node without labels", m{}, []*contractv1.Object{claim("pv"), volume(m{oldZone: "b"})}, ""},
		{"T-4, PRD-24: same zone", m{oldZone: "a", oldRegion: "r"}, []*contractv1.Object{claim("pv"), volume(m{oldZone: "a"})}, ""},
		{"T-4, PRD-24, ODD-7: other zone", m{oldZone: "a", oldRegion: "r"}, []*contractv1.Object{claim("pv"), volume(m{oldZone: "b"})}, conflict},
		{"T-4, PRD-26: volume without labels", m{oldZone: "a"}, []*contractv1.Object{claim("pv"), volume(nil)}, ""},
		{"PRD-24: other region", m{oldZone: "a", oldRegion: "r"}, []*contractv1.Object{claim("pv"), volume(m{oldZone: "a", oldRegion: "s"})}, conflict},
		{"PRD-25: the node may carry more", m{oldZone: "a", oldRegion: "r", "rack": "1"}, []*contractv1.Object{claim("pv"), volume(m{oldRegion: "r"})}, ""},
		{"PRD-25: the node may not carry less", m{oldZone: "a"}, []*contractv1.Object{claim("pv"), volume(m{oldZone: "a", oldRegion: "r"})}, conflict},
		{"today's label on the node", m{newZone: "b"}, []*contractv1.Object{claim("pv"), volume(m{oldZone: "a"})}, conflict},
		{"today's label on both", m{newZone: "a"}, []*contractv1.Object{claim("pv"), volume(m{newZone: "a"})}, ""},
		{"a volume of several zones", m{newZone: "c"}, []*contractv1.Object{claim("pv"), volume(m{newZone: "a__c"})}, ""},
		{"PRD-26: unbound claim", m{newZone: "a"}, []*contractv1.Object{claim("")}, ""},
		{"PRD-26: missing claim", m{newZone: "a"}, nil, `persistentvolumeclaim "data" not found`},
		{"PRD-26: missing volume", m{newZone: "a"}, []*contractv1.Object{claim("pv")}, `persistentvolume "pv" not found`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := verdict(t, c.node, c.objects...)
			if c.unfit == "" && len(got) > 0 || c.unfit != "" && (len(got) != 1 || got[0] != c.unfit) {
				t.Errorf("got %q, want %q", got, c.unfit)
			}
		})
	}
}
