package references

import (
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// What the running kernel or the configuration names stays, and it is said who
// names it.
func TestAmong(t *testing.T) {
	object := v1alpha1.Plugin{}
	object.Name = "Picky"
	object.Spec.Bundle = "quiet"
	object.Status.Bundle, object.Status.Version, object.Status.Digest = "quiet", "2", "sha256:two"
	object.Status.Previous = []v1alpha1.PluginRevision{{PluginVersion: v1alpha1.PluginVersion{Version: "1", Digest: "sha256:one"}}}
	object.Spec.Shadow = &v1alpha1.PluginShadowSpec{Version: "3"}
	by := Among([]v1alpha1.Plugin{object}, []config.Bundle{{Name: "loud", Digest: "sha256:loud"}})
	for _, c := range []struct {
		entry catalog.Entry
		who   string
	}{
		{catalog.Entry{Name: "quiet", Version: "2", Artifacts: map[string]string{"wasm": "sha256:two"}}, "Plugin Picky"},
		{catalog.Entry{Name: "quiet", Version: "1", Artifacts: map[string]string{"process": "sha256:one"}}, "Plugin Picky"},
		{catalog.Entry{Name: "quiet", Version: "3", Artifacts: map[string]string{"wasm": "sha256:three"}}, "Plugin Picky"},
		{catalog.Entry{Name: "loud", Version: "1", Digest: "sha256:loud"}, "plugins.bundles"},
		{catalog.Entry{Name: "quiet", Version: "2", Artifacts: map[string]string{"wasm": "sha256:other"}}, ""}, // the same version, another build
		{catalog.Entry{Name: "other", Version: "3"}, ""},
	} {
		if got := by(c.entry); (c.who == "") != (got == "") || !strings.Contains(got, c.who) {
			t.Errorf("%s %s is named by %q, want %q", c.entry.Name, c.entry.Version, got, c.who)
		}
	}
}
