package volumebinding

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

const gib = 1 << 30

type change func(*contractv1.Object)

func object(kind, namespace, name string, changes ...change) *contractv1.Object {
	o := &contractv1.Object{Key: &contractv1.ObjectKey{Kind: kind, Namespace: namespace, Name: name}, Uid: "uid-" + name, Annotations: map[string]string{}}
	for _, c := range changes {
		c(o)
	}
	return o
}

func claim(name, class string, changes ...change) *contractv1.Object {
	return object("PersistentVolumeClaim", "a", name, append([]change{func(o *contractv1.Object) {
		o.Storage = &contractv1.Storage{ClassName: class, HasClassName: true, Bytes: 5 * gib, AccessModes: []string{"ReadWriteOnce"}, VolumeMode: "Filesystem", Phase: "Pending"}
	}}, changes...)...)
}

func bound(volume string) change {
	return func(o *contractv1.Object) {
		o.VolumeName, o.Storage.Phase, o.Annotations[claims.BindCompleted] = volume, "Bound", "yes"
	}
}

func annotated(key, value string) change {
	return func(o *contractv1.Object) { o.Annotations[key] = value }
}

func on(node string) *contractv1.NodeAffinity {
	return &contractv1.NodeAffinity{HasRequired: true, Required: []*contractv1.NodeSelectorTerm{{MatchExpressions: []*contractv1.Requirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{node}}}}}}
}

// volume is a free one, on a node if that is given.
func volume(name, class, node string, bytes int64, changes ...change) *contractv1.Object {
	return object("PersistentVolume", "", name, append([]change{func(o *contractv1.Object) {
		o.Volume = &contractv1.Volume{Type: "local"}
		o.Storage = &contractv1.Storage{ClassName: class, Bytes: bytes, AccessModes: []string{"ReadWriteOnce", "ReadOnlyMany"}, VolumeMode: "Filesystem", Phase: "Available"}
		if node != "" {
			o.NodeAffinity = on(node)
		}
	}}, changes...)...)
}

func class(name, provisioner, mode string, changes ...change) *contractv1.Object {
	return object("StorageClass", "", name, append([]change{func(o *contractv1.Object) {
		o.StorageClass = &contractv1.StorageClass{Provisioner: provisioner, VolumeBindingMode: mode}
	}}, changes...)...)
}

func pod(names ...string) *plugintest.Pod {
	p := &plugintest.Pod{Namespace: "a", Name: "p", Uid: "u"}
	for _, n := range names {
		kind := "persistentVolumeClaim"
		if strings.HasPrefix(n, "p-") {
			kind = "ephemeral"
		}
		p.Volumes = append(p.Volumes, &contractv1.Volume{Type: kind, Id: n})
	}
	return p
}

// The names are those of kube-scheduler's tables, where a case restates one.
func TestFilter(t *testing.T) {
	const wait = "WaitForFirstConsumer"
	local, made := class("local", noProvisioner, wait), class("made", "csi.example.com", wait)
	both := func(reason string) plugintest.Verdicts { return plugintest.Verdicts{"n": reason, "m": reason} }
	room := func(node string, bytes, most int64) *contractv1.Object {
		return object("CSIStorageCapacity", "kube-system", "c-"+node, func(o *contractv1.Object) {
			o.Storage = &contractv1.Storage{ClassName: "made", Bytes: bytes, MaximumVolumeBytes: most, HasSelector: true,
				Selector: &contractv1.Selector{MatchLabels: map[string]string{"kubernetes.io/hostname": node}}}
		})
	}
	asks := object("CSIDriver", "", "csi.example.com", func(o *contractv1.Object) { o.CsiDriver = &contractv1.CSIDriver{StorageCapacity: true} })
	turnedNode := object("CSINode", "", "n", annotated(migratedPlugins, "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"))
	for _, c := range []struct {
		name    string
		pod     *plugintest.Pod
		objects []*contractv1.Object
		want    plugintest.Verdicts
	}{
		{"pod has not pvcs", pod(), nil, both("")},
		{"all bound", pod("x"), []*contractv1.Object{claim("x", "local", bound("v")), volume("v", "local", "n", gib)}, plugintest.Verdicts{"n": "", "m": ReasonNode}},
		{"PVC does not exist", pod("x"), nil, both(`persistentvolumeclaim "x" not found`)},
		{"Part of PVCs do not exist", pod("x", "y"), []*contractv1.Object{claim("x", "local", bound("v")), volume("v", "local", "n", gib)}, both(`persistentvolumeclaim "y" not found`)},
		{"ephemeral claim not made yet", pod("p-e"), nil, both(`waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"`)},
		{"ephemeral claim of another", pod("p-e"), []*contractv1.Object{claim("p-e", "local", bound("v"))}, both("PVC a/p-e was not created for pod a/p (pod is not owner)")},
		{"immediate claims not bound", pod("x"), []*contractv1.Object{class("now", "csi.example.com", "Immediate"), claim("x", "now")}, both("pod has unbound immediate PersistentVolumeClaims")},
		{"a claim of a class that is not there", pod("x"), []*contractv1.Object{claim("x", "none")}, both("pod has unbound immediate PersistentVolumeClaims")},
		{"prebound, not complete", pod("x"), []*contractv1.Object{local, claim("x", "local", func(o *contractv1.Object) { o.VolumeName = "v" })}, both("pod has unbound immediate PersistentVolumeClaims")},
		{"pv not found claim lost", pod("x"), []*contractv1.Object{claim("x", "local", bound("v"), func(o *contractv1.Object) { o.Storage.Phase = "Lost" })}, both(`persistentvolumeclaim "x" bound to non-existent persistentvolume "v"`)},
		{"claim is being deleted", pod("x"), []*contractv1.Object{claim("x", "local", func(o *contractv1.Object) { o.Terminating = true })}, both(`persistentvolumeclaim "x" is being deleted`)},
		{"pv not found", pod("x"), []*contractv1.Object{claim("x", "local", bound("v"))}, both(ReasonVolume)},
		{"unbound claims no matches", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "n", gib)}, both(ReasonBind)},
		{"bound and unbound unsatisfied", pod("x", "y"), []*contractv1.Object{local, claim("x", "local", bound("v")), volume("v", "local", "else", gib), claim("y", "local")}, both(ReasonNode + "; " + ReasonBind)},
		{"a free volume on one node", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "n", 9*gib)}, plugintest.Verdicts{"n": "", "m": ReasonBind}},
		{"two claims, one volume", pod("x", "y"), []*contractv1.Object{local, claim("x", "local"), claim("y", "local"), volume("v", "local", "", 9*gib)}, both(ReasonBind)},
		{"the smaller claim takes the smaller volume", pod("x", "y"), []*contractv1.Object{local, claim("x", "local", func(o *contractv1.Object) { o.Storage.Bytes = 8 * gib }), claim("y", "local"), volume("a", "local", "", 8*gib), volume("b", "local", "", 6*gib)}, both("")},
		{"another claim's", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "", 9*gib, func(o *contractv1.Object) {
			o.Storage.Claim = &contractv1.ClaimReference{Namespace: "a", Name: "y"}
		})}, both(ReasonBind)},
		{"its own, whatever phase", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "n", 9*gib, func(o *contractv1.Object) {
			o.Storage.Phase, o.Storage.Claim = "Bound", &contractv1.ClaimReference{Namespace: "a", Name: "x", Uid: "uid-x"}
		}), volume("w", "local", "m", 9*gib)}, plugintest.Verdicts{"n": "", "m": ReasonBind}},
		{"of a claim of that name before", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "", 9*gib, func(o *contractv1.Object) {
			o.Storage.Claim = &contractv1.ClaimReference{Namespace: "a", Name: "x", Uid: "other"}
		})}, both(ReasonBind)},
		{"released", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "", 9*gib, func(o *contractv1.Object) { o.Storage.Phase = "Released" })}, both(ReasonBind)},
		{"going", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "", 9*gib, func(o *contractv1.Object) { o.Terminating = true })}, both(ReasonBind)},
		{"other mode", pod("x"), []*contractv1.Object{local, claim("x", "local"), volume("v", "local", "", 9*gib, func(o *contractv1.Object) { o.Storage.VolumeMode = "Block" })}, both(ReasonBind)},
		{"other access", pod("x"), []*contractv1.Object{local, claim("x", "local", func(o *contractv1.Object) { o.Storage.AccessModes = []string{"ReadWriteMany"} }), volume("v", "local", "", 9*gib)}, both(ReasonBind)},
		{"other attributes", pod("x"), []*contractv1.Object{local, claim("x", "local", func(o *contractv1.Object) { o.Storage.VolumeAttributesClass = "gold" }), volume("v", "local", "", 9*gib)}, both(ReasonBind)},
		{"other labels", pod("x"), []*contractv1.Object{local, claim("x", "local", func(o *contractv1.Object) {
			o.Storage.HasSelector, o.Storage.Selector = true, &contractv1.Selector{MatchLabels: map[string]string{"a": "b"}}
		}), volume("v", "local", "", 9*gib)}, both(ReasonBind)},
		{"to be made", pod("x"), []*contractv1.Object{made, claim("x", "made")}, both("")},
		{"to be made where the class allows", pod("x"), []*contractv1.Object{class("made", "csi.example.com", wait, func(o *contractv1.Object) {
			o.StorageClass.AllowedTopologies = on("m").Required
		}), claim("x", "made")}, plugintest.Verdicts{"n": ReasonBind, "m": ""}},
		{"to be made where it was selected", pod("x"), []*contractv1.Object{made, claim("x", "made", annotated(claims.SelectedNode, "m"))}, plugintest.Verdicts{"n": ReasonBind, "m": ""}},
		{"to be made where there is room", pod("x"), []*contractv1.Object{made, asks, claim("x", "made"), room("n", 5*gib, 0)}, plugintest.Verdicts{"n": "", "m": ReasonSpace}},
		{"no room for one so large", pod("x"), []*contractv1.Object{made, asks, claim("x", "made"), room("n", 50*gib, gib), room("m", 50*gib, -1)}, both(ReasonSpace)},
		{"migrated on one node", pod("x"), []*contractv1.Object{claim("x", "", bound("v")), turnedNode, volume("v", "", "m", gib, func(o *contractv1.Object) {
			o.Volume = &contractv1.Volume{Type: "awsElasticBlockStore", InTreePlugin: "kubernetes.io/aws-ebs"}
			o.MigratedNodeAffinity = on("n")
		})}, both("")},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := plugintest.NewCluster().Node("n").Node("m")
			for _, o := range c.objects {
				cluster.Object(o)
			}
			cluster.WantVerdicts(t, New(), c.pod, c.want)
		})
	}
}

func TestConfigure(t *testing.T) {
	for config, want := range map[string]string{
		`{}`: "", `{"bindTimeoutSeconds": 1, "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}`: "",
		`{"bindTimeoutSeconds": -1}`: "should not be a negative value", `{"shape": [{"utilization": 101, "score": 0}]}`: "shape[0].utilization", `[]`: "VolumeBinding",
	} {
		if err := Configure([]byte(config)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestEvents(t *testing.T) {
	helps := map[string]func(*sdk.Cluster, *sdk.Pod, *sdk.Event) bool{}
	for _, i := range Events() {
		helps[i.Kind] = i.Helps
	}
	p := &sdk.Pod{Namespace: "a", Volumes: []sdk.Volume{{Type: "ephemeral", ID: "p-e"}}}
	of := func(namespace, name string) *sdk.Object { return &sdk.Object{Namespace: namespace, Name: name} }
	capacity := func(bytes, most int64) *sdk.Object {
		return &sdk.Object{Storage: &sdk.Storage{Bytes: bytes, MaximumVolumeBytes: most}}
	}
	for _, c := range []struct {
		kind string
		e    sdk.Event
		want bool
	}{
		{"PersistentVolumeClaim", sdk.Event{NewObject: of("a", "p-e")}, true},
		{"PersistentVolumeClaim", sdk.Event{NewObject: of("b", "p-e")}, false},
		{"PersistentVolumeClaim", sdk.Event{NewObject: of("a", "x")}, false},
		{"CSIStorageCapacity", sdk.Event{OldObject: capacity(1, 0), NewObject: capacity(2, 0)}, true},
		{"CSIStorageCapacity", sdk.Event{OldObject: capacity(1, 0), NewObject: capacity(2, -1)}, false},
		{"CSINode", sdk.Event{OldObject: of("", "n"), NewObject: of("", "n")}, false},
		{"CSINode", sdk.Event{NewObject: of("", "n")}, true},
	} {
		if got := helps[c.kind](nil, p, &c.e); got != c.want {
			t.Errorf("%s %+v: %v", c.kind, c.e, got)
		}
	}
}

// A driver that no longer says how much room there is helps the pods whose volumes
// it makes, and no others.
func TestDriverThatCeasesToMeasure(t *testing.T) {
	world := plugintest.NewCluster().Object(class("made", "csi.example.com", "WaitForFirstConsumer")).Object(claim("x", "made")).
		Object(class("local", noProvisioner, "WaitForFirstConsumer")).Object(claim("y", "local")).Object(claim("z", "gone"))
	data, err := proto.Marshal(world.Delta(pod()))
	if err != nil {
		t.Fatal(err)
	}
	g, err := sdk.GuestOf(New())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	says := func(name string, yes bool) *sdk.Object {
		return &sdk.Object{Name: name, CSIDriver: &sdk.CSIDriver{StorageCapacity: yes}}
	}
	for _, c := range []struct {
		claim, driver string
		was, is       bool
		want          bool
	}{
		{"x", "csi.example.com", true, false, true},
		{"x", "csi.example.com", false, true, false},
		{"x", "csi.example.com", true, true, false},
		{"x", "other.example.com", true, false, false},
		{"y", "csi.example.com", true, false, false},
		{"z", "csi.example.com", true, false, false},       // its class is not there
		{"missing", "csi.example.com", true, false, false}, // it is not there itself
	} {
		p := &sdk.Pod{Namespace: "a", Volumes: []sdk.Volume{{Type: "persistentVolumeClaim", ID: c.claim}}}
		if got := unmeasured(g.Cluster(), p, &sdk.Event{OldObject: says(c.driver, c.was), NewObject: says(c.driver, c.is)}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
