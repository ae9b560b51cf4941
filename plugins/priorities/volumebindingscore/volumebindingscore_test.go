package volumebindingscore

import (
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

func on(node string) *contractv1.NodeAffinity {
	return &contractv1.NodeAffinity{HasRequired: true, Required: []*contractv1.NodeSelectorTerm{{MatchExpressions: []*contractv1.Requirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{node}}}}}}
}

// The names are those of kube-scheduler's table.
func TestScore(t *testing.T) {
	cluster := plugintest.NewCluster().Node("a").Node("b").Node("c")
	add := func(kind, namespace, name string, fill func(*contractv1.Object)) {
		o := &contractv1.Object{Key: &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: name}}
		fill(o)
		cluster.Object(o)
	}
	class := func(name, provisioner string) {
		add("StorageClass", "", name, func(o *contractv1.Object) {
			o.StorageClass = &contractv1.StorageClass{Provisioner: provisioner, VolumeBindingMode: "WaitForFirstConsumer"}
		})
	}
	volume := func(name, node string, bytes int64) {
		add("PersistentVolume", "", name, func(o *contractv1.Object) {
			o.Storage, o.NodeAffinity = &contractv1.Storage{ClassName: "local", Bytes: bytes, Phase: "Available"}, on(node)
		})
	}
	room := func(node string, bytes int64) {
		add("CSIStorageCapacity", "x", "room-"+node, func(o *contractv1.Object) {
			o.Storage = &contractv1.Storage{ClassName: "made", Bytes: bytes, HasSelector: true, Selector: &contractv1.Selector{MatchLabels: map[string]string{"kubernetes.io/hostname": node}}}
		})
	}
	claim := func(name, class string) {
		add("PersistentVolumeClaim", "n", name, func(o *contractv1.Object) { o.Storage = &contractv1.Storage{ClassName: class, Bytes: 50} })
	}
	class("local", "kubernetes.io/no-provisioner")
	class("made", "csi")
	add("CSIDriver", "", "csi", func(o *contractv1.Object) { o.CsiDriver = &contractv1.CSIDriver{StorageCapacity: true} })
	volume("v1", "a", 100)
	volume("v2", "b", 50)
	room("a", 100)
	room("b", 200)
	claim("fixed", "local")
	claim("new", "made")
	claim("newer", "made")
	pod := func(names ...string) *plugintest.Pod {
		p := &plugintest.Pod{Namespace: "n"}
		for _, n := range names {
			p.Volumes = append(p.Volumes, &contractv1.Volume{Type: "persistentVolumeClaim", Id: n})
		}
		return p
	}
	full := New()
	if err := full.Configure([]byte(`{"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}`)); err != nil {
		t.Fatal(err)
	}
	t.Run("local volumes with close capacity are preferred", func(t *testing.T) {
		cluster.WantScores(t, full, pod("fixed"), plugintest.Scores{"a": 50, "b": 100, "c": 0})
	})
	t.Run("prefer node with maximum allocatable", func(t *testing.T) {
		cluster.WantScores(t, New(), pod("new"), plugintest.Scores{"a": 50, "b": 75, "c": 0})
	})
	t.Run("dynamic provisioning with multiple PVCs of the same StorageClass", func(t *testing.T) {
		cluster.WantScores(t, full, pod("new", "newer"), plugintest.Scores{"a": 100, "b": 50, "c": 0})
	})
	t.Run("storage capacity score with static binds", func(t *testing.T) {
		cluster.WantScores(t, full, pod("fixed", "new"), plugintest.Scores{"a": 50, "b": 100, "c": 0})
	})
	t.Run("no claims", func(t *testing.T) {
		cluster.WantScores(t, New(), pod(), plugintest.Scores{"a": 0, "b": 0, "c": 0})
	})
}
