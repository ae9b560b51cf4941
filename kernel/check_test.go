package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
)

// What a file says of plugins is checked with the file's own lines: names, and
// configurations against the schemas of the bundles' manifests.
func TestCheck(t *testing.T) {
	bundles := t.TempDir()
	dir := filepath.Join(bundles, "zones")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "zones.wasm"), "\x00asm\x01\x00\x00\x00")
	write(t, filepath.Join(dir, plugin.ManifestFile), `apiVersion: kernel.pintle.dev/v1alpha1
kind: PluginManifest
name: zones
version: 0.1.0
plugins:
- name: Zone
  kind: predicate
  configSchema:
    type: object
    additionalProperties: false
    properties:
      depth: {type: integer, minimum: 1}
`)
	if err := plugin.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, bundle, predicate, want string }{
		{"fine", "config: {Zone: {depth: 2}}", "Zone", ""},
		{"a value out of its range", "config:\n      Zone:\n        depth: 0", "Zone", "kernel.yaml:10: plugins.bundles[0].config.Zone.depth: "},
		{"a key that the schema has not", "config: {Zone: {width: 1}}", "Zone", "kernel.yaml:8: plugins.bundles[0].config.Zone"},
		{"a predicate that no bundle has", "transport: wasm", "Zones", `kernel.yaml:12: scheduler.profiles[0].predicates[0]: scheduler profile default-scheduler: no loaded bundle has predicate "Zones"`},
		{"a plugin that the bundle does not have", "config: {Zones: {depth: 2}}", "Zone", "kernel.yaml:8: plugins.bundles[0].config.Zones: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := t.TempDir()
			file := filepath.Join(data, "kernel.yaml")
			write(t, file, `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: `+filepath.Join(data, "none")+`
plugins:
  directories: [`+bundles+`]
  bundles:
  - name: zones
    `+tc.bundle+`
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [`+tc.predicate+`]
`)
			cfg, err := config.Load(config.Source{File: file})
			if err != nil {
				t.Fatal(err)
			}
			err = Check(cfg, filepath.Join(data, "pintle"))
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
			if _, err := os.Stat(cfg.DataDir); err == nil {
				t.Error("the check made the data directory")
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
