package nodiskconflict

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	gce := func(id string, ro bool) sdk.Volume {
		return sdk.Volume{Type: "gcePersistentDisk", ID: id, ReadOnly: ro}
	}
	ebs := func(id string, ro bool) sdk.Volume {
		return sdk.Volume{Type: "awsElasticBlockStore", ID: id, ReadOnly: ro}
	}
	rbd := func(id string, monitors ...string) sdk.Volume {
		return sdk.Volume{Type: "rbd", ID: id, Monitors: monitors}
	}
	for _, c := range []struct {
		name       string
		have, want []sdk.Volume
		fit        bool
	}{
		{"no volumes", nil, nil, true},
		{"PRD-16: same GCE disk", []sdk.Volume{gce("d", false)}, []sdk.Volume{gce("d", false)}, false},
		{"PRD-16: other GCE disk", []sdk.Volume{gce("d", false)}, []sdk.Volume{gce("e", false)}, true},
		{"FIL-5: GCE, both read-only", []sdk.Volume{gce("d", true)}, []sdk.Volume{gce("d", true)}, true},
		{"FIL-5: GCE, one writes", []sdk.Volume{gce("d", true)}, []sdk.Volume{gce("d", false)}, false},
		{"FIL-5, PRD-17: EBS never, read-only or not", []sdk.Volume{ebs("d", true)}, []sdk.Volume{ebs("d", true)}, false},
		{"FIL-5: RBD, monitor shared", []sdk.Volume{rbd("pool/image", "m1", "m2")}, []sdk.Volume{rbd("pool/image", "m2")}, false},
		{"FIL-5: RBD, no monitor shared", []sdk.Volume{rbd("pool/image", "m1")}, []sdk.Volume{rbd("pool/image", "m2")}, true},
		{"FIL-5: RBD, other image", []sdk.Volume{rbd("pool/image", "m1")}, []sdk.Volume{rbd("pool/other", "m1")}, true},
		{"PRD-15: other types are skipped", []sdk.Volume{{Type: "nfs", ID: "d"}}, []sdk.Volume{{Type: "nfs", ID: "d"}}, true},
		{"PRD-15: the loop goes on behind a skipped one", []sdk.Volume{{Type: "nfs", ID: "d"}, ebs("d", false)}, []sdk.Volume{{Type: "nfs", ID: "d"}, ebs("d", false)}, false},
		{"same id of another type", []sdk.Volume{gce("d", false)}, []sdk.Volume{ebs("d", false)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &sdk.Node{Pods: map[string]*sdk.Pod{"u": {Volumes: c.have}}}
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{Volumes: c.want}, Node: node})
			if v.Fit() != c.fit || !c.fit && v.Reasons[0] != "node(s) had no available disk" {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
