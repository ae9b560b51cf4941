package history

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func version(n int) v1alpha1.PluginVersion {
	return v1alpha1.PluginVersion{Version: fmt.Sprint(n), Digest: fmt.Sprint("sha256:", n)}
}

func of(n int, config string) Revision {
	return Revision{Version: version(n), Plugins: map[string]v1alpha1.PluginRevision{
		"a": {Config: &runtime.RawExtension{Raw: []byte(config)}}, "b": {},
	}}
}

// Numbers rise, builds are there once, and what is too much is forgotten as a whole.
func TestAdd(t *testing.T) {
	h := History{}
	for n := range 2 * keep {
		h.Add("x", of(n, "{}"), version(n+1))
	}
	if list := h["x"]; len(list) != keep || list[0].Number != 2*keep || list[0].Version != version(2*keep-1) {
		t.Fatalf("%d revisions, the last one %+v", len(list), list[0])
	}
	h.Add("x", of(2*keep, "{}"), version(2*keep-1)) // rolled back
	if list := h["x"]; list[0].Number != 2*keep+1 || h.Find("x", 2*keep) != nil || h.Find("x", 0).Version != version(2*keep) {
		t.Errorf("after a rollback: %+v", list[:2])
	}
	large := `"` + strings.Repeat("x", keepBytes/3) + `"`
	for n := range 5 {
		h.Add("large", of(n, large), version(n+1))
	}
	if list := h["large"]; len(list) != 2 || h.Find("large", 5) == nil || h.Find("large", 3) != nil {
		t.Errorf("%d large revisions, want the last two", len(list))
	}
	if h.Find("nothing", 0) != nil {
		t.Error("a revision of a bundle that never ran")
	}
}

// What the objects of a bundle's plugins say is what was remembered.
func TestRead(t *testing.T) {
	before := History{}
	for n := range 3 {
		before.Add("x", of(n, fmt.Sprintf(`{"n":%d}`, n)), version(n+1))
	}
	after := History{}
	for _, name := range []string{"b", "a"} {
		o := &v1alpha1.Plugin{Spec: v1alpha1.PluginSpec{Bundle: "x"}, Status: v1alpha1.PluginStatus{Previous: before.Of("x", name)}}
		o.Name = name
		after.Read(o)
		after.Read(o)
	}
	for number := int64(1); number <= 3; number++ {
		r := after.Find("x", number)
		if r == nil || r.Version != version(int(number-1)) || string(r.Plugins["a"].Config.Raw) != fmt.Sprintf(`{"n":%d}`, number-1) || len(r.Names()) != 2 {
			t.Errorf("revision %d: %+v", number, r)
		}
	}
	if len(after["x"]) != 3 || after.Find("x", 0).Number != 3 {
		t.Errorf("%+v", after["x"])
	}
}
