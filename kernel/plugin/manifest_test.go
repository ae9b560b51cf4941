package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
)

const goodManifest = `apiVersion: kernel.pintle.dev/v1alpha1
kind: PluginManifest
name: b
version: 1.0.0
plugins:
- {name: p, kind: predicate}
`

// Start-up faults of the catalog are one clear line each.
func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("unsealed/manifest.yaml", strings.Replace(goodManifest, "name: b", "name: unsealed", 1))
	write("renamed/manifest.yaml", goodManifest)
	pinned := "artifacts: {wasm: {path: gone.wasm, digest: 'sha256:" + strings.Repeat("a", 64) + "'}}\n"
	write("gone/manifest.yaml", strings.Replace(goodManifest, "name: b", "name: gone", 1)+pinned)
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no such bundle", Config{Bundles: []BundleConfig{{Name: "none"}}}, "plugin bundle none: no folder none with a manifest.yaml in " + dir},
		{"not a name", Config{Bundles: []BundleConfig{{Name: "../x"}}}, "not a name of a folder"},
		{"not sealed", Config{Bundles: []BundleConfig{{Name: "unsealed"}}}, "pins no artefact; run pintle plugin seal"},
		{"other name", Config{Bundles: []BundleConfig{{Name: "renamed"}}}, `name is "b"; want the folder's name "renamed"`},
		{"no artefact", Config{Bundles: []BundleConfig{{Name: "gone"}}}, "gone.wasm: no such file or directory; build it with make"},
		{"no such transport", Config{Bundles: []BundleConfig{{Name: "gone", Transport: "process"}}}, "has no process build"},
		{"twice", Config{Directories: []string{catalog}, Bundles: []BundleConfig{{Name: "guest"}, {Name: "guest"}}}, "configured twice"},
		{"no such predicate", Config{Directories: []string{catalog}, Bundles: []BundleConfig{{Name: "guest"}}, Profiles: []Profile{{SchedulerName: "s", Predicates: []string{"Fits"}}}},
			`scheduler profile s: no loaded bundle has predicate "Fits"; there are: AllocatesWithoutEnd, AsksForTheTime, Ends, FitsCPU`},
		{"no such controller", Config{Controllers: []string{"x"}}, `controllers.enabled: no loaded bundle has controller "x"`},
		{"no such controller on demand", Config{Controllers: []string{"x"}, OnDemand: []string{"x"}, Waiting: []string{"x"}}, `controllers.onDemand: no loaded bundle has controller "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.cfg.Directories == nil {
				tc.cfg.Directories = []string{dir}
			}
			_, err := New(tc.cfg, Deps{})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant one line with %s", err, tc.want)
			}
		})
	}
}

func TestSealIsStable(t *testing.T) {
	path := filepath.Join(catalog, "guest", manifest.File)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := seal.Seal(t.Context(), filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(before) != string(after) {
		t.Errorf("sealing again changed the manifest (%v):\n%s", err, after)
	}
	if err := seal.Seal(t.Context(), t.TempDir()); err == nil {
		t.Error("sealed a folder without a manifest")
	}
}
