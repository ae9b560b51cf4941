package volumezone

import (
	"testing"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

const (
	oldZone   = "failure-domain.beta.kubernetes.io/zone"
	oldRegion = "failure-domain.beta.kubernetes.io/region"
	zone      = "topology.kubernetes.io/zone"
	region    = "topology.kubernetes.io/region"
)

type m = map[string]string

func object(kind, namespace, name string) *contractv1.Object {
	return &contractv1.Object{Key: &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: name}}
}

func claim(volume, class string) *contractv1.Object {
	o := object("PersistentVolumeClaim", "a", "data")
	o.VolumeName, o.Storage = volume, &contractv1.Storage{ClassName: class}
	return o
}

func volume(labels m) *contractv1.Object {
	o := object("PersistentVolume", "", "pv")
	o.Labels = labels
	return o
}

func class(mode string) *contractv1.Object {
	o := object("StorageClass", "", "fast")
	o.StorageClass = &contractv1.StorageClass{VolumeBindingMode: mode}
	return o
}

// The names are those of kube-scheduler's tables, where a case restates one.
func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name    string
		node    m
		objects []*contractv1.Object
		want    string
	}{
		{"node without labels", m{}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "b"})}, ""},
		{"beta zone label matched", m{oldZone: "a"}, []*contractv1.Object{claim("pv", ""), volume(m{oldZone: "a"})}, ""},
		{"beta region label doesn't match", m{oldRegion: "s"}, []*contractv1.Object{claim("pv", ""), volume(m{oldRegion: "r"})}, Reason},
		{"zone label matched", m{zone: "a"}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "a"})}, ""},
		{"zone label doesn't match", m{zone: "a"}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "b"})}, Reason},
		{"pv with zone and region, node with only zone", m{zone: "a"}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "a", region: "r"})}, Reason},
		{"pv with zone,node with beta zone", m{oldZone: "a"}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "a"})}, Reason},
		{"pv with beta label,node with ga label, matched", m{zone: "a"}, []*contractv1.Object{claim("pv", ""), volume(m{oldZone: "a"})}, ""},
		{"pv with beta label,node with ga label, don't match", m{zone: "b"}, []*contractv1.Object{claim("pv", ""), volume(m{oldZone: "a"})}, Reason},
		{"label zone failure domain matched", m{zone: "c"}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "a__c"})}, ""},
		{"a label with an empty zone says nothing", m{zone: "c"}, []*contractv1.Object{claim("pv", ""), volume(m{zone: "a__"})}, ""},
		{"unbound volume empty storage class", m{zone: "a"}, []*contractv1.Object{claim("", "")}, "PersistentVolumeClaim had no pv name and storageClass name"},
		{"unbound volume no storage class", m{zone: "a"}, []*contractv1.Object{claim("", "fast")}, `storageclass.storage.k8s.io "fast" not found`},
		{"unbound volume immediate binding mode", m{zone: "a"}, []*contractv1.Object{claim("", "fast"), class("Immediate")}, "PersistentVolume had no name"},
		{"unbound volume wait binding mode", m{zone: "a"}, []*contractv1.Object{claim("", "fast"), class("WaitForFirstConsumer")}, ""},
		{"no claim", m{}, nil, `persistentvolumeclaim "data" not found`},
		{"no volume", m{}, []*contractv1.Object{claim("pv", "")}, `persistentvolume "pv" not found`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := plugintest.NewCluster().Node("n", plugintest.With(func(n *contractv1.Node) { n.Labels = c.node }))
			for _, o := range c.objects {
				cluster.Object(o)
			}
			pod := &plugintest.Pod{Namespace: "a", Volumes: []*contractv1.Volume{{Type: "persistentVolumeClaim", Id: "data"}, {Type: "ephemeral", Id: "other"}}}
			cluster.WantVerdicts(t, New(), pod, plugintest.Verdicts{"n": c.want})
		})
	}
}

func TestEvents(t *testing.T) {
	volume := func(labels m) *sdk.Object { return &sdk.Object{Kind: "PersistentVolume", Labels: labels} }
	helps := Events()[3].Helps
	for _, c := range []struct {
		name string
		e    sdk.Event
		want bool
	}{
		{"new", sdk.Event{NewObject: volume(nil)}, true},
		{"the same zone", sdk.Event{OldObject: volume(m{zone: "a", "x": "y"}), NewObject: volume(m{zone: "a"})}, false},
		{"another", sdk.Event{OldObject: volume(m{zone: "a"}), NewObject: volume(m{zone: "b"})}, true},
	} {
		if got := helps(nil, nil, &c.e); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
