// Package volumecounttest holds the tests of every predicate that volumecount
// makes: what they must do is the same but for the type of disk and the limit.
package volumecounttest

import (
	"fmt"
	"strconv"
	"testing"

	"pintle.dev/pintle/plugins/predicates/volumecount"
	"pintle.dev/pintle/sdk"
)

// Run tests the predicates that make returns: limit disks of volumeType may be
// mounted (T-3, PRD-36), and the limit can be set (FIL-4). id is the
// requirement of the limit.
func Run(t *testing.T, make func() sdk.Predicate, volumeType string, limit int, id string) {
	t.Helper()
	disks := func(from, to int) []sdk.Volume {
		var out []sdk.Volume
		for i := from; i < to; i++ {
			out = append(out, sdk.Volume{Type: volumeType, ID: "disk-" + strconv.Itoa(i)})
		}
		return out
	}
	for _, c := range []struct {
		name       string
		config     string
		have, want []sdk.Volume
		fit        bool
	}{
		{"T-3, PRD-36: up to the limit", "", disks(0, limit-1), disks(limit-1, limit), true},
		{"T-3, " + id + ": one more", "", disks(0, limit), disks(limit, limit+1), false},
		{"PRD-36: distinct disks count", "", disks(0, limit), disks(0, 1), true},
		{"a pod without such disks fits a full node", "", disks(0, limit+1), nil, true},
		{"other types do not count", "", disks(0, limit), []sdk.Volume{{Type: "nfs", ID: "x"}}, true},
		{"FIL-4: the limit can be set", `{"maxVolumes":2}`, disks(0, 2), disks(2, 3), false},
		{"FIL-4: and to more", fmt.Sprintf(`{"maxVolumes":%d}`, limit+1), disks(0, limit), disks(limit, limit+1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := make()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			node := &sdk.Node{Pods: map[string]*sdk.Pod{"u": {Volumes: c.have}}}
			v := p.Filter(&sdk.Request{Pod: &sdk.Pod{Volumes: c.want}, Node: node, Cluster: &sdk.Cluster{}})
			if v.Fit() != c.fit || !c.fit && v.Reasons[0] != volumecount.Reason {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
	for _, bad := range []string{`{"maxVolumes":0}`, `{"maxVolumes":"many"}`, "{"} {
		if err := make().Configure([]byte(bad)); err == nil {
			t.Errorf("configuration %s: no error", bad)
		}
	}
}
