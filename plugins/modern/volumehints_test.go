package main

import (
	"testing"

	"pintle.dev/pintle/plugins/predicates/nodevolumelimits"
	"pintle.dev/pintle/plugins/predicates/volumebinding"
	"pintle.dev/pintle/plugins/predicates/volumerestrictions"
	"pintle.dev/pintle/plugins/predicates/volumezone"
	"pintle.dev/pintle/plugins/prefilters/volumebindingprefilter"
	"pintle.dev/pintle/plugins/prefilters/volumerestrictionsprefilter"
	"pintle.dev/pintle/plugins/prefilters/volumezoneprefilter"
	"pintle.dev/pintle/sdk"
)

// The same for the plugins that are about volumes: each case is one of a table that
// kube-scheduler tests its own with, but for those of objects of a wrong type. The
// part of a plugin that refuses pods as a whole hears what its predicate hears.
func TestVolumeHintsAreKubeSchedulers(t *testing.T) {
	const (
		ebs, gce = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
		migrated = "storage.alpha.kubernetes.io/migrated-plugins"
		zone     = "topology.kubernetes.io/zone"
		oldZone  = "failure-domain.beta.kubernetes.io/zone"
		csiNode  = "CSINode"
		claims   = "PersistentVolumeClaim"
		capacity = "CSIStorageCapacity"
		driver   = "CSIDriver"
	)
	mounts := func(volumes ...sdk.Volume) *sdk.Pod { return &sdk.Pod{Namespace: "a", Volumes: volumes} }
	claim := func(name string) sdk.Volume { return sdk.Volume{Type: "persistentVolumeClaim", ID: name} }
	made := func(name string) sdk.Volume { return sdk.Volume{Name: name, Type: "ephemeral", ID: "p-" + name} }
	inline := func(driver string) sdk.Volume { return sdk.Volume{Type: "csi", ID: driver} }
	ebsDisk := func(id string) sdk.Volume {
		return sdk.Volume{Type: "awsElasticBlockStore", ID: id, InTreePlugin: "kubernetes.io/aws-ebs", Driver: ebs, Handle: id}
	}
	gceDisk := func(id string) sdk.Volume {
		return sdk.Volume{Type: "gcePersistentDisk", ID: id, InTreePlugin: "kubernetes.io/gce-pd", Driver: gce, Handle: id}
	}
	rbd := func(monitors ...string) sdk.Volume { return sdk.Volume{Type: "rbd", ID: "foo/bar", Monitors: monitors} }
	iscsi := func(iqn string) sdk.Volume { return sdk.Volume{Type: "iscsi", ID: iqn} }

	came := func(kind string, now *sdk.Object) *sdk.Event {
		return &sdk.Event{Kind: kind, Action: sdk.ActionAdd, NewObject: now}
	}
	changed := func(kind string, old, now *sdk.Object) *sdk.Event {
		return &sdk.Event{Kind: kind, Action: sdk.ActionUpdate, OldObject: old, NewObject: now}
	}
	gone := func(p *sdk.Pod) *sdk.Event { return &sdk.Event{Kind: sdk.KindPod, Action: sdk.ActionDelete, OldPod: p} }
	detached := func(attacher string) *sdk.Event {
		return &sdk.Event{Kind: "VolumeAttachment", Action: sdk.ActionDelete, OldObject: &sdk.Object{Attachment: &sdk.Attachment{Attacher: attacher}}}
	}
	of := func(namespace, name string) *sdk.Object { return &sdk.Object{Namespace: namespace, Name: name} }
	bound := func(name, volume string) *sdk.Object {
		return &sdk.Object{Namespace: "a", Name: name, VolumeName: volume}
	}
	leaves := func(plugins string) *sdk.Object {
		return &sdk.Object{Annotations: map[string]string{migrated: plugins}}
	}
	class := func(mode string, topologies ...sdk.NodeSelectorTerm) *sdk.Object {
		return &sdk.Object{StorageClass: &sdk.StorageClass{VolumeBindingMode: mode, AllowedTopologies: topologies}}
	}
	room := func(bytes, most int64) *sdk.Object {
		return &sdk.Object{Storage: &sdk.Storage{Bytes: bytes, MaximumVolumeBytes: most}}
	}
	measures := func(name string, yes bool) *sdk.Object {
		return &sdk.Object{Name: name, CSIDriver: &sdk.CSIDriver{StorageCapacity: yes}}
	}
	takes := func(limit int32) *sdk.Object {
		return &sdk.Object{Drivers: []sdk.Driver{{Name: ebs, HasLimit: true, Limit: limit}}}
	}
	labelled := func(pairs ...string) *sdk.Object {
		o := &sdk.Object{Labels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			o.Labels[pairs[i]] = pairs[i+1]
		}
		return o
	}
	here := sdk.NodeSelectorTerm{MatchExpressions: []sdk.Requirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{"n"}}}}
	plain, one, two := mounts(), mounts(claim("x")), mounts(claim("x"), claim("y"))
	ephemerals := mounts(made("x"), made("y"))

	type hint struct {
		name  string
		pod   *sdk.Pod
		event *sdk.Event
		want  bool
	}
	for _, plugin := range []struct {
		name      string
		predicate sdk.Predicate
		prefilter func() sdk.PreFilter // nil: it has none
		hints     []hint
	}{
		{"binding", volumebinding.New(), volumebindingprefilter.New, []hint{
			{"a CSINode comes", plain, came(csiNode, leaves("")), true},
			{"one more plugin is left to CSI", plain, changed(csiNode, leaves("test1"), leaves("test1, test2")), true},
			{"another plugin is left to CSI", plain, changed(csiNode, leaves("test1"), leaves("test2")), true},
			{"the same plugins are left to CSI", plain, changed(csiNode, leaves("test1"), leaves("test1")), false},

			{"a claim changes, the pod has none", mounts(sdk.Volume{Type: "emptyDir"}), changed(claims, of("a", "y"), of("a", "y")), false},
			{"a claim of another namespace comes", two, came(claims, of("b", "y")), false},
			{"another claim changes", mounts(claim("x"), claim("z")), changed(claims, of("a", "y"), of("a", "y")), false},
			{"another claim for a pod alone changes", mounts(made("x"), made("z")), changed(claims, of("a", "p-y"), of("a", "p-y")), false},
			{"its claim changes", two, changed(claims, of("a", "y"), of("a", "y")), true},
			{"the claim that was made for it changes", ephemerals, changed(claims, of("a", "p-y"), of("a", "p-y")), true},

			{"a class comes", plain, came("StorageClass", class("")), true},
			{"a class has other topologies", plain, changed("StorageClass", class(""), class("", here)), true},
			{"a class stays as it is", plain, changed("StorageClass", class(""), class("")), false},

			{"a capacity comes", plain, came(capacity, room(0, 0)), true},
			{"a capacity is said", plain, changed(capacity, room(0, 0), room(100, 0)), true},
			{"a largest volume is said", plain, changed(capacity, room(0, 0), room(0, 100)), true},
			{"a capacity grows", plain, changed(capacity, room(50, 0), room(100, 0)), true},
			{"the largest volume is no longer said", plain, changed(capacity, room(100, 50), room(100, 0)), true},
			{"the largest volume grows", plain, changed(capacity, room(100, 50), room(100, 60)), true},
			{"nothing about it changes", plain, changed(capacity, room(100, 50), room(100, 50)), false},
			{"the capacity stays", plain, changed(capacity, room(100, 0), room(100, 0)), false},
			{"the capacity shrinks to the largest volume", plain, changed(capacity, room(100, 50), room(50, 0)), false},
			{"the capacity shrinks", plain, changed(capacity, room(100, 0), room(90, 0)), false},
			{"the largest volume shrinks", plain, changed(capacity, room(0, 100), room(0, 90)), false},

			{"a driver measures, the pod has none", plain, changed(driver, measures("d", false), measures("d", true)), false},
			{"another driver ceases to measure", mounts(inline("d")), changed(driver, measures("e", true), measures("e", false)), false},
			{"its driver goes on not to measure", mounts(inline("d")), changed(driver, measures("d", false), measures("d", false)), false},
			{"its driver goes on measuring", mounts(inline("d")), changed(driver, measures("d", true), measures("d", true)), false},
			{"its driver ceases to measure", mounts(inline("d")), changed(driver, measures("d", true), measures("d", false)), true},
		}},
		{"zone", volumezone.New(), volumezoneprefilter.New, []hint{
			{"a claim comes, the pod has none", plain, came(claims, bound("x", "v")), false},
			{"another claim comes", one, came(claims, bound("y", "v")), false},
			{"a claim of another namespace comes", one, came(claims, of("b", "x")), false},
			{"its claim comes", one, came(claims, bound("x", "v")), true},
			{"its claim is bound", one, changed(claims, bound("x", ""), bound("x", "v")), true},
			{"a claim is bound, the pod has none", plain, changed(claims, bound("x", ""), bound("x", "v")), false},

			{"a class without a mode comes", one, came("StorageClass", class("")), false},
			{"a class comes that waits for pods", one, came("StorageClass", class("WaitForFirstConsumer")), true},

			{"a volume comes", one, came("PersistentVolume", labelled(oldZone, "us-west1-b")), true},
			{"a volume moves", one, changed("PersistentVolume", labelled(oldZone, "us-west1-a"), labelled(oldZone, "us-west1-b")), true},
			{"a volume gets another label of its zone", one, changed("PersistentVolume", labelled(oldZone, "us-west1-a"), labelled(oldZone, "us-west1-a", zone, "zone")), true},
			{"a volume stays", one, changed("PersistentVolume", labelled(oldZone, "us-west1-a", zone, "zone"), labelled(oldZone, "us-west1-a", zone, "zone")), false},
		}},
		{"limits", nodevolumelimits.New(), nil, []hint{
			{"a pod with a claim goes", one, gone(mounts(claim("y"))), true},
			{"a pod with a disk that counts goes", one, gone(mounts(ebsDisk(""))), true},
			{"a pod without volumes goes", one, gone(plain), false},
			{"a pod that was on no node goes", one, &sdk.Event{Kind: sdk.KindUnscheduledPod, Action: sdk.ActionDelete, OldPod: one}, false},

			{"a claim of another namespace comes", plain, came(claims, of("b", "")), false},
			{"its claim comes", one, came(claims, of("a", "x")), true},
			{"the claim that was made for it comes", ephemerals, came(claims, of("a", "p-x")), true},
			{"another claim comes", one, came(claims, of("a", "y")), false},
			{"a claim comes, the pod has none", plain, came(claims, of("a", "y")), false},

			{"a volume is detached, the pod has a claim", one, detached("test.storage.gke.io"), true},
			{"a volume of its disk's driver is detached", mounts(ebsDisk("test")), detached(ebs), true},
			{"a volume of another driver is detached", mounts(gceDisk("test")), detached(ebs), false},
			{"one of its disk's driver, and it has a claim", mounts(ebsDisk("test"), claim("x")), detached(ebs), true},
			{"one of another driver, and it has a claim", mounts(ebsDisk("test"), claim("x")), detached("test.storage.gke.io"), true},
			{"a volume is detached, the pod has none", plain, detached("test.storage.gke.io"), false},

			{"a limit is raised", one, changed(csiNode, takes(1), takes(2)), true},
			{"a limit is lowered", one, changed(csiNode, takes(2), takes(1)), false},
			{"a limit stays", one, changed(csiNode, takes(1), takes(1)), false},
		}},
		{"restrictions", volumerestrictions.New(), volumerestrictionsprefilter.New, []hint{
			{"a pod with its GCE disk goes", mounts(gceDisk("foo")), gone(mounts(gceDisk("foo"))), true},
			{"a pod with another GCE disk goes", mounts(gceDisk("foo")), gone(mounts(gceDisk("bar"))), false},
			{"a pod with its EBS disk goes", mounts(ebsDisk("foo")), gone(mounts(ebsDisk("foo"))), true},
			{"a pod with another EBS disk goes", mounts(ebsDisk("foo")), gone(mounts(ebsDisk("bar"))), false},
			{"a pod with its RBD image goes", mounts(rbd("a", "b")), gone(mounts(rbd("a", "b"))), true},
			{"a pod with an RBD image of other monitors goes", mounts(rbd("a", "b")), gone(mounts(rbd("c", "d"))), false},
			{"a pod with its iSCSI disk goes", mounts(iscsi("iqn.2016-12")), gone(mounts(iscsi("iqn.2016-12"))), true},
			{"a pod with another iSCSI disk goes", mounts(iscsi("iqn.2016-12")), gone(mounts(iscsi("iqn.2017-12"))), false},
			{"a pod with its claim goes", one, gone(one), true},
			{"a pod with another claim goes", one, gone(mounts(claim("y"))), false},

			{"one of its claims comes", two, came(claims, of("a", "x")), true},
			{"another claim comes", one, came(claims, of("a", "y")), false},
			{"a claim of another namespace comes", one, came(claims, of("b", "x")), false},
		}},
	} {
		for _, c := range plugin.hints {
			if got := hears(&plugin.predicate, c.pod, c.event); got != c.want {
				t.Errorf("%s: %s: %v, want %v", plugin.name, c.name, got, c.want)
			}
			if plugin.prefilter == nil {
				continue
			}
			if got := hears(&sdk.Predicate{Events: plugin.prefilter().Events}, c.pod, c.event); got != c.want {
				t.Errorf("%s: pre-filter: %s: %v, want %v", plugin.name, c.name, got, c.want)
			}
		}
	}
}
