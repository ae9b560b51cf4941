package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
)

// An installation is tried without rights: a bundle that has the name of one to
// which the configuration grants the kernel's own is not run with them.
func TestTrialInheritsNoGrant(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "greedy")
	mark := filepath.Join(t.TempDir(), "ran")
	for name, text := range map[string]string{
		"greedy":      "#!/bin/sh\nid > " + mark + "\n",
		manifest.File: "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: greedy\nversion: 9.9.9\nprivileged: true\nplugins: [{name: pass, kind: proxy}]\n",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	h := runHost(t, testConfig(t, manifest.TransportWASM), nil)
	for _, used := range []bool{false, true} {
		cfg := testConfig(t, manifest.TransportWASM)
		cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "greedy", Directory: dir, Placed: true, Privileged: true})
		if used {
			cfg.Proxies = []string{"pass"}
		}
		err := h.Try(t.Context(), cfg, "greedy")
		if !used && err != nil || used && (err == nil || !strings.Contains(err.Error(), "put digest: sha256:")) {
			t.Errorf("in use %v: %v", used, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}
