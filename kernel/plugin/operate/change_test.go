package operate

import (
	"errors"
	"testing"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// A rollback goes to the build that ran, whatever transport was asked for since.
func TestRollback(t *testing.T) {
	former := []v1alpha1.PluginVersion{{Version: "1.0.0", Digest: "sha256:module"}, {Version: "0.9.0", Digest: "sha256:older"}}
	for version, want := range map[string]v1alpha1.PluginVersion{"": former[0], "0.9.0": former[1]} {
		o := &v1alpha1.Plugin{Spec: v1alpha1.PluginSpec{Version: "1.0.0", Transport: v1alpha1.PluginTransportProcess}, Status: v1alpha1.PluginStatus{Previous: former}}
		if err := Rollback(version)(o); err != nil {
			t.Fatal(err)
		}
		if o.Spec.Version != want.Version || o.Spec.Digest != want.Digest || o.Spec.Transport != "" {
			t.Errorf("rollback to %q: %+v, want %+v and no transport", version, o.Spec, want)
		}
	}
	if err := Rollback("")(&v1alpha1.Plugin{}); !errors.Is(err, ErrNoPrevious) {
		t.Errorf("nothing to go back to: %v", err)
	}
}
