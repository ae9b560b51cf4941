package nodevolumelimits

import (
	"testing"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

const driver = "ebs.csi.aws.com"

func object(kind, namespace, name string, fill func(*contractv1.Object)) *contractv1.Object {
	o := &contractv1.Object{Key: &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: name}}
	fill(o)
	return o
}

// bound is a claim and its volume, of a CSI driver or of the in-tree plugin that
// it took over from.
func bound(name, of string) []*contractv1.Object {
	source := &contractv1.Volume{Type: "csi", Driver: of, Handle: "h-" + name}
	if of == "in-tree" {
		source = &contractv1.Volume{Type: "awsElasticBlockStore", InTreePlugin: "kubernetes.io/aws-ebs", Driver: driver, Handle: "h-" + name}
	}
	return []*contractv1.Object{
		object("PersistentVolumeClaim", "a", name, func(o *contractv1.Object) { o.VolumeName, o.Storage = "pv-"+name, &contractv1.Storage{} }),
		object("PersistentVolume", "", "pv-"+name, func(o *contractv1.Object) { o.Volume = source }),
	}
}

// pending is a claim of a class whose volumes are to be made.
func pending(name, class string) *contractv1.Object {
	return object("PersistentVolumeClaim", "a", name, func(o *contractv1.Object) { o.Storage = &contractv1.Storage{ClassName: class} })
}

func uses(names ...string) (list []*contractv1.Volume) {
	for _, n := range names {
		list = append(list, &contractv1.Volume{Type: "persistentVolumeClaim", Id: n})
	}
	return list
}

// The names are those of kube-scheduler's table, where a case restates one.
func TestFilter(t *testing.T) {
	inline := func(id string) *contractv1.Volume {
		return &contractv1.Volume{Type: "awsElasticBlockStore", InTreePlugin: "kubernetes.io/aws-ebs", Driver: driver, Handle: id}
	}
	made := func(name, owner string) *contractv1.Object {
		return object("PersistentVolumeClaim", "a", name, func(o *contractv1.Object) {
			o.Storage = &contractv1.Storage{ClassName: "ebs", Owner: &contractv1.OwnerReference{Uid: owner}}
		})
	}
	attachment := func(volume string) *contractv1.Object {
		return object("VolumeAttachment", "", "va-"+volume, func(o *contractv1.Object) {
			o.Attachment = &contractv1.Attachment{Attacher: driver, NodeName: "n", PersistentVolumeName: "pv-" + volume}
		})
	}
	for _, c := range []struct {
		name     string
		limit    int32 // -1: the driver has none, -2: there is no CSINode
		new      []*contractv1.Volume
		existing []*contractv1.Volume
		more     []*contractv1.Object
		want     string
	}{
		{"fits when node volume limit >= new pods CSI volume", 2, uses("one"), uses("two"), nil, ""},
		{"doesn't when node volume limit <= pods CSI volume", 1, uses("one"), uses("two"), nil, Reason},
		{"a volume that is there counts once", 1, uses("one"), uses("one"), nil, ""},
		{"should when driver does not support volume limits", -1, uses("one"), uses("two"), nil, ""},
		{"nil csi node", -2, uses("one"), uses("two"), nil, ""},
		{"count pending PVCs towards volume limit <= pods CSI volume", 1, uses("one"), uses("pending"), nil, Reason},
		{"don't count pvcs with missing SC towards volume limit", 1, uses("one"), uses("classless"), nil, ""},
		{"don't count pvcs with different type towards volume limit", 1, uses("one"), uses("other"), nil, ""},
		{"should count in-tree volumes if migration is enabled", 1, uses("old"), uses("one"), nil, Reason},
		{"should count unbound in-tree volumes if migration is enabled", 1, uses("oldpending"), uses("one"), nil, Reason},
		{"should not count non-migratable in-tree volumes", 1, uses("filepending"), uses("one"), nil, ""},
		{"should count in-tree inline volumes if migration is enabled", 1, []*contractv1.Volume{inline("x")}, uses("one"), nil, Reason},
		{"an inline disk is the volume of that handle", 1, []*contractv1.Volume{inline("h-one")}, uses("one"), nil, ""},
		{"should count VolumeAttachments towards volume limit when no pods exist", 1, uses("one"), nil, []*contractv1.Object{attachment("two")}, Reason},
		{"should schedule pod when VolumeAttachments count does not exceed limit", 2, uses("one"), uses("two"), []*contractv1.Object{attachment("two")}, ""},
		{"missing claim", 1, uses("none"), nil, nil, `looking up PVC a/none: persistentvolumeclaim "none" not found`},
		{"ephemeral volume missing", 1, []*contractv1.Volume{{Type: "ephemeral", Id: "p-none"}}, nil, nil, `looking up PVC a/p-none: persistentvolumeclaim "p-none" not found`},
		{"ephemeral volume not owned", 1, []*contractv1.Volume{{Type: "ephemeral", Id: "p-v"}}, nil, []*contractv1.Object{made("p-v", "else")}, "PVC a/p-v was not created for pod a/p (pod is not owner)"},
		{"ephemeral volume unbound", 1, []*contractv1.Volume{{Type: "ephemeral", Id: "p-v"}}, nil, []*contractv1.Object{made("p-v", "u")}, ""},
		{"ephemeral doesn't when node volume limit <= pods CSI volume", 1, []*contractv1.Volume{{Type: "ephemeral", Id: "p-v"}}, uses("one"), []*contractv1.Object{made("p-v", "u")}, Reason},
		{"no volumes", 0, []*contractv1.Volume{{Type: "configMap"}}, nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := plugintest.NewCluster().Node("n")
			class := func(name, provisioner, driver string) {
				cluster.Object(object("StorageClass", "", name, func(o *contractv1.Object) {
					o.StorageClass = &contractv1.StorageClass{Provisioner: provisioner, Driver: driver, VolumeBindingMode: "WaitForFirstConsumer"}
				}))
			}
			class("ebs", driver, "")
			class("old", "kubernetes.io/aws-ebs", driver)
			class("file", "kubernetes.io/azure-file", "")
			objects := append(append(append(append(c.more, bound("one", driver)...), bound("two", driver)...), bound("other", "other.example.com")...), bound("old", "in-tree")...)
			for _, o := range append(objects, pending("pending", "ebs"), pending("classless", "none"), pending("oldpending", "old"), pending("filepending", "file")) {
				cluster.Object(o)
			}
			if c.limit != -2 {
				cluster.Object(object("CSINode", "", "n", func(o *contractv1.Object) {
					o.Drivers = []*contractv1.Driver{{Name: driver, HasLimit: c.limit >= 0, Limit: max(c.limit, 0)}, {Name: "kubernetes.io/azure-file", HasLimit: true}}
				}))
			}
			cluster.Pod("n", &plugintest.Pod{Namespace: "a", Volumes: append(c.existing, uses("gone")...)})
			cluster.WantVerdicts(t, New(), &plugintest.Pod{Namespace: "a", Name: "p", Uid: "u", Volumes: c.new}, plugintest.Verdicts{"n": c.want})
		})
	}
}

func TestEvents(t *testing.T) {
	node := func(limit int32) *sdk.Object {
		return &sdk.Object{Drivers: []sdk.Driver{{Name: "a", HasLimit: true, Limit: limit}}}
	}
	if raised(nil, nil, &sdk.Event{OldObject: node(2), NewObject: node(2)}) || !raised(nil, nil, &sdk.Event{OldObject: node(2), NewObject: node(3)}) {
		t.Error("a limit that was raised helps, no other")
	}
	pod := &sdk.Pod{Volumes: []sdk.Volume{{Type: "awsElasticBlockStore", InTreePlugin: "kubernetes.io/aws-ebs", Driver: driver}}}
	for attacher, want := range map[string]bool{driver: true, "other": false} {
		if got := detached(nil, pod, &sdk.Event{OldObject: &sdk.Object{Attachment: &sdk.Attachment{Attacher: attacher}}}); got != want {
			t.Errorf("%s: %v", attacher, got)
		}
	}
}
