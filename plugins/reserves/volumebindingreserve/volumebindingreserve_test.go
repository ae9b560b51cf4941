package volumebindingreserve

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

// cluster has nodes n and m, a class without and one with a provisioner, a free
// volume, and claims of both classes and one that is bound.
func cluster(t *testing.T) *sdk.Cluster {
	t.Helper()
	c := plugintest.NewCluster().Node("n").Node("m")
	add := func(kind, namespace, name string, fill func(*contractv1.Object)) {
		o := &contractv1.Object{Key: &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: name}, Uid: "uid-" + name, Annotations: map[string]string{}}
		fill(o)
		c.Object(o)
	}
	for name, provisioner := range map[string]string{"local": "kubernetes.io/no-provisioner", "made": "csi"} {
		add("StorageClass", "", name, func(o *contractv1.Object) {
			o.StorageClass = &contractv1.StorageClass{Provisioner: provisioner, VolumeBindingMode: "WaitForFirstConsumer"}
		})
		add("PersistentVolumeClaim", "a", "of-"+name, func(o *contractv1.Object) { o.Storage = &contractv1.Storage{ClassName: name, Bytes: 1} })
	}
	add("PersistentVolumeClaim", "a", "bound", func(o *contractv1.Object) {
		o.VolumeName, o.Storage = "taken", &contractv1.Storage{}
		o.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	})
	add("PersistentVolume", "", "taken", func(o *contractv1.Object) { o.Storage = &contractv1.Storage{} })
	add("PersistentVolume", "", "free", func(o *contractv1.Object) {
		o.Storage = &contractv1.Storage{ClassName: "local", Bytes: 1, Phase: "Available"}
		o.NodeAffinity = &contractv1.NodeAffinity{HasRequired: true, Required: []*contractv1.NodeSelectorTerm{{MatchExpressions: []*contractv1.Requirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{"n"}}}}}}
	})
	data, err := proto.Marshal(c.Delta(&plugintest.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	g, err := sdk.GuestOf(New(NewLedger())())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	return g.Cluster()
}

func placement(c *sdk.Cluster, node uint32, claims ...string) *sdk.Placement {
	p := &sdk.Pod{Namespace: "a", Name: "p", UID: "u"}
	for _, name := range claims {
		p.Volumes = append(p.Volumes, sdk.Volume{Type: "persistentVolumeClaim", ID: name})
	}
	n := c.Node(node)
	return &sdk.Placement{Cluster: c, Pod: &sdk.QueuedPod{Pod: p}, Node: n, NodeName: n.Name}
}

func TestReserve(t *testing.T) {
	c, ledger := cluster(t), NewLedger()
	plugin := New(ledger)()
	if s := plugin.Reserve(placement(c, 0, "of-local", "of-made", "bound")); s.Code != sdk.Success {
		t.Fatalf("%+v", s)
	}
	plan := ledger.Plan("u")
	if plan == nil || plan.Node != "n" || len(plan.Bindings) != 1 || plan.Bindings[0] != (Binding{Claim{"a", "of-local", "uid-of-local"}, "free"}) ||
		len(plan.Provisions) != 1 || plan.Provisions[0] != (Claim{"a", "of-made", "uid-of-made"}) {
		t.Fatalf("plan %+v", plan)
	}
	plugin.Unreserve(placement(c, 0))
	if ledger.Plan("u") != nil {
		t.Error("a plan that was given up is kept")
	}
	plugin.Unreserve(placement(c, 0)) // nothing to take back

	// A pod whose claims are bound has a plan too: that there is nothing to do.
	if s := plugin.Reserve(placement(c, 0, "bound")); s.Code != sdk.Success || ledger.Plan("u") == nil {
		t.Errorf("%+v, plan %v", s, ledger.Plan("u"))
	}
	ledger.Forget("u")
	for name, p := range map[string]*sdk.Placement{
		"where the volume is not": placement(c, 1, "of-local"), "a claim that is missing": placement(c, 0, "none"),
		"a node that is gone": {Cluster: c, Pod: placement(c, 0, "bound").Pod, NodeName: "n"},
	} {
		if s := plugin.Reserve(p); s.Code == sdk.Success || ledger.Plan("u") != nil {
			t.Errorf("%s: %+v, plan %v", name, s, ledger.Plan("u"))
		}
	}
}
