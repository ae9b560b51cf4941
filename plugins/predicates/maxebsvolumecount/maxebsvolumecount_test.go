package maxebsvolumecount

import (
	"strconv"
	"testing"

	"pintle.dev/pintle/sdk"
)

func disks(from, to int) []sdk.Volume {
	var out []sdk.Volume
	for i := from; i < to; i++ {
		out = append(out, sdk.Volume{Type: "awsElasticBlockStore", ID: "disk-" + strconv.Itoa(i)})
	}
	return out
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name       string
		config     string
		have, want []sdk.Volume
		fit        bool
	}{
		{"T-3, PRD-36: up to the limit", "", disks(0, 39-1), disks(39-1, 39), true},
		{"T-3, PRD-34: one more", "", disks(0, 39), disks(39, 39+1), false},
		{"PRD-36: distinct disks count", "", disks(0, 39), disks(0, 1), true},
		{"a pod without such disks fits a full node", "", disks(0, 39+1), nil, true},
		{"other types do not count", "", disks(0, 39), []sdk.Volume{{Type: "nfs", ID: "x"}}, true},
		{"FIL-4: the limit can be set", `{"maxVolumes":2}`, disks(0, 2), disks(2, 3), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			node := &sdk.Node{Pods: map[string]*sdk.Pod{"u": {Volumes: c.have}}}
			v := p.Filter(&sdk.Request{Pod: &sdk.Pod{Volumes: c.want}, Node: node, Cluster: &sdk.Cluster{}})
			if v.Fit() != c.fit || !c.fit && v.Reasons[0] != "node(s) exceed max volume count" {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}

func TestConfigureRejects(t *testing.T) {
	for _, bad := range []string{`{"maxVolumes":0}`, `{"maxVolumes":"many"}`, "{"} {
		p := New()
		if err := p.Configure([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
