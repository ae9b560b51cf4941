package volumerestrictions

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

func disk(kind, id string, readOnly bool, monitors ...string) *contractv1.Volume {
	return &contractv1.Volume{Type: kind, Id: id, ReadOnly: readOnly, Monitors: monitors}
}

func TestDisks(t *testing.T) {
	const gce, ebs, iscsi, rbd = "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"
	for _, c := range []struct {
		name       string
		have, want *contractv1.Volume
		reason     string
	}{
		{"one state: GCE", disk(gce, "d", false), disk(gce, "d", true), ReasonDisk},
		{"GCE, both read", disk(gce, "d", true), disk(gce, "d", true), ""},
		{"other disk", disk(gce, "d", false), disk(gce, "e", false), ""},
		{"AWS, both read", disk(ebs, "d", true), disk(ebs, "d", true), ReasonDisk},
		{"iSCSI", disk(iscsi, "iqn", false), disk(iscsi, "iqn", false), ReasonDisk},
		{"iSCSI, both read", disk(iscsi, "iqn", true), disk(iscsi, "iqn", true), ""},
		{"RBD, a monitor in common", disk(rbd, "p/i", false, "a", "b"), disk(rbd, "p/i", false, "b"), ReasonDisk},
		{"RBD, both read", disk(rbd, "p/i", true, "a"), disk(rbd, "p/i", true, "a"), ""},
		{"RBD, none in common", disk(rbd, "p/i", false, "a"), disk(rbd, "p/i", false, "b"), ""},
		{"same name of another type", disk(gce, "d", false), disk(ebs, "d", false), ""},
		{"not compared", disk("nfs", "d", false), disk("nfs", "d", false), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := plugintest.NewCluster().Node("n").Node("other").Pod("n", &plugintest.Pod{Volumes: []*contractv1.Volume{c.have}})
			cluster.WantVerdicts(t, New(), &plugintest.Pod{Volumes: []*contractv1.Volume{c.want}}, plugintest.Verdicts{"n": c.reason, "other": ""})
		})
	}
}

func uses(claim string) []*contractv1.Volume {
	return []*contractv1.Volume{{Type: "persistentVolumeClaim", Id: claim}}
}

func claimObject(name, mode string) *contractv1.Object {
	return &contractv1.Object{Key: &contractv1.ObjectKey{Kind: "PersistentVolumeClaim", Namespace: "a", Name: name}, Storage: &contractv1.Storage{AccessModes: []string{mode}}}
}

func TestReadWriteOncePod(t *testing.T) {
	cluster := plugintest.NewCluster().Node("n").Node("m").
		Object(claimObject("alone", "ReadWriteOncePod")).Object(claimObject("free", "ReadWriteOncePod")).Object(claimObject("shared", "ReadWriteMany")).
		Pod("n", &plugintest.Pod{Namespace: "a", Volumes: uses("alone")}).Pod("n", &plugintest.Pod{Namespace: "a", Volumes: uses("shared")}).
		Pod("n", &plugintest.Pod{Namespace: "b", Volumes: uses("free")})
	for claim, want := range map[string]string{"alone": ReasonUsed, "shared": "", "free": "", "none": `persistentvolumeclaim "none" not found`} {
		cluster.WantVerdicts(t, New(), &plugintest.Pod{Namespace: "a", Volumes: uses(claim)}, plugintest.Verdicts{"n": want, "m": want})
	}
}

// Pods that come and go are followed, wherever they are.
func TestFollow(t *testing.T) {
	g, err := sdk.GuestOf(New())
	if err != nil {
		t.Fatal(err)
	}
	apply := func(d *contractv1.Delta) {
		t.Helper()
		data, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Apply(data); err != nil {
			t.Fatal(err)
		}
	}
	verdict := func() []string {
		t.Helper()
		out := []uint32{0}
		if err := g.Filter(0, plugintest.Class, []uint32{0}, out); err != nil {
			t.Fatal(err)
		}
		return g.Reasons(0, out[0])
	}
	apply(plugintest.NewCluster().Node("n").Node("m").Object(claimObject("alone", "ReadWriteOncePod")).Delta(&plugintest.Pod{Namespace: "a", Volumes: uses("alone")}))
	if got := verdict(); len(got) != 0 {
		t.Fatalf("refused: %q", got)
	}
	user := &contractv1.Pod{Uid: "u", Namespace: "a", Volumes: uses("alone")}
	apply(&contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: 1, Pod: user}}}}})
	if got := verdict(); len(got) != 1 || got[0] != ReasonUsed {
		t.Fatalf("with a user: %q", got)
	}
	apply(&contractv1.Delta{Generation: 3, Operations: []*contractv1.Operation{{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: 1, Uid: "u"}}}}})
	if got := verdict(); len(got) != 0 {
		t.Fatalf("without one again: %q", got)
	}
}

func TestEvents(t *testing.T) {
	helps := Events()[0].Helps
	pod := &sdk.Pod{Namespace: "a", Volumes: []sdk.Volume{{Type: "persistentVolumeClaim", ID: "data"}, {Type: "iscsi", ID: "iqn"}}}
	for _, c := range []struct {
		name string
		gone sdk.Pod
		want bool
	}{
		{"its claim", sdk.Pod{Namespace: "a", Volumes: []sdk.Volume{{Type: "persistentVolumeClaim", ID: "data"}}}, true},
		{"its disk", sdk.Pod{Namespace: "a", Volumes: []sdk.Volume{{Type: "iscsi", ID: "iqn"}}}, true},
		{"another", sdk.Pod{Namespace: "a", Volumes: []sdk.Volume{{Type: "iscsi", ID: "other"}}}, false},
		{"another namespace", sdk.Pod{Namespace: "b", Volumes: []sdk.Volume{{Type: "iscsi", ID: "iqn"}}}, false},
	} {
		if got := helps(nil, pod, &sdk.Event{OldPod: &c.gone}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
