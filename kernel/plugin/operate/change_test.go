package operate

import (
	"errors"
	"testing"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// A rollback names the revision that ran, and leaves the rest of the spec to the host.
func TestRollback(t *testing.T) {
	former := []v1alpha1.PluginRevision{
		{Revision: 2, PluginVersion: v1alpha1.PluginVersion{Version: "1.0.0", Digest: "sha256:module"}},
		{Revision: 1, PluginVersion: v1alpha1.PluginVersion{Version: "0.9.0", Digest: "sha256:older"}},
	}
	for version, want := range map[string]int64{"": 2, "0.9.0": 1} {
		o := &v1alpha1.Plugin{Spec: v1alpha1.PluginSpec{Version: "1.0.0"}, Status: v1alpha1.PluginStatus{Previous: former}}
		if err := Rollback(version)(o); err != nil {
			t.Fatal(err)
		}
		if o.Spec.Version != "1.0.0" || o.Spec.RollbackTo == nil || o.Spec.RollbackTo.Revision != want {
			t.Errorf("rollback to %q: %+v, want revision %d", version, o.Spec, want)
		}
	}
	o := &v1alpha1.Plugin{Status: v1alpha1.PluginStatus{Previous: former}}
	if err := Rollback("7")(o); err == nil || o.Spec.RollbackTo != nil {
		t.Errorf("a version that never ran: %v", err)
	}
	if err := Rollback("")(&v1alpha1.Plugin{}); !errors.Is(err, ErrNoPrevious) {
		t.Errorf("nothing to go back to: %v", err)
	}
}
