package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/plugin/sealed"
)

// TestSealPlatforms: builds for several platforms are pinned side by side, with
// the files beside them; this machine's goes before the one without a platform.
func TestSealPlatforms(t *testing.T) {
	dir := t.TempDir()
	mine := "quiet-" + strings.Replace(manifest.Platform(), "/", "-", 1)
	for name, text := range map[string]string{
		manifest.File: "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: quiet\nversion: 1.0.0\nplugins:\n- {name: Quiet, kind: predicate}\nartifacts:\n  files:\n  - path: words.txt\n",
		"quiet":       "any", mine: "mine", "quiet-linux-riscv64": "other", "quiet-my-notes": "no build", "words.txt": "words",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // sealing again changes nothing
		if err := seal.Seal(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	m, err := manifest.Read(filepath.Join(dir, manifest.File))
	if err != nil {
		t.Fatal(err)
	}
	a := &m.Artifacts
	if len(a.Platforms) != 2 || len(a.Files) != 1 || a.Process == nil || len(a.All()) != 4 {
		t.Errorf("sealed %+v", a)
	}
	if got := a.ProcessFor(manifest.Platform()); got == nil || got.Path != mine {
		t.Errorf("the build for %s is %+v", manifest.Platform(), got)
	}
	if got := a.ProcessFor("plan9/mips"); got != a.Process {
		t.Errorf("the build for another platform is %+v", got)
	}
	kind, chosen, err := (&manifest.Bundle{Directory: dir, Manifest: m}).Artifact("")
	if err != nil || kind != manifest.TransportProcess || chosen.Path != mine {
		t.Errorf("%s %+v, %v", kind, chosen, err)
	}
	a.Process, a.Platforms = nil, map[string]*manifest.Artifact{"plan9/mips": chosen}
	if _, _, err := (&manifest.Bundle{Directory: dir, Manifest: m}).Artifact(""); err == nil || !strings.Contains(err.Error(), "has no process build for "+manifest.Platform()+"; it has: plan9/mips") {
		t.Error(err)
	}
}

// TestManifestPaths: a bundle's files lie in its folder, each under one name.
func TestManifestPaths(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for path, want := range map[string]string{
		"a/b": "", "../a": "inside", "/a": "inside", "a/../b": "want b", "./a": "want a", ".": "beside the manifest", "Manifest.yaml": "beside the manifest",
		`a\b`: "printable", "a\x01": "printable", strings.Repeat("x", 300): "255 bytes",
	} {
		if got := manifest.PathFault(path); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q", path, got)
		}
	}
	text := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: quiet\nversion: 1.0.0\nplugins:\n- {name: Quiet, kind: predicate}\nartifacts:\n" +
		"  wasm: {path: a, digest: " + digest + "}\n  files: [{path: A, digest: " + digest + "}]\n"
	if _, err := manifest.Parse("m", []byte(text)); err == nil || !strings.Contains(err.Error(), "are one file") {
		t.Error(err)
	}
}

// A build that was made of another source leaves with its pin, and nothing else does.
func TestUnseal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(catalog, "guest"))); err != nil {
		t.Fatal(err)
	}
	if err := seal.Unseal(dir, manifest.TransportProcess); err != nil {
		t.Fatal(err)
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Read(filepath.Join(dir, manifest.File))
	if err != nil {
		t.Fatal(err)
	}
	if m.Artifacts.Process != nil || m.Artifacts.WASM == nil {
		t.Errorf("artifacts %+v, want the module alone", m.Artifacts)
	}
	if _, err := os.Stat(filepath.Join(dir, "guest")); err == nil {
		t.Error("the process build is still there")
	}
	// A path out of the folder removes nothing.
	outside := filepath.Join(filepath.Dir(dir), "precious")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, sealed.File)); err != nil {
		t.Fatal(err)
	}
	text := "name: guest\nartifacts:\n  process: {path: ../precious}\n"
	if err := os.WriteFile(filepath.Join(dir, manifest.File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := seal.Unseal(dir, manifest.TransportProcess); err == nil {
		t.Error("a path outside of the folder: no error")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// Configuration for a plugin that the bundle does not have, and a name at a place for
// another kind, are told.
func TestNamesOfTheConfiguration(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.Bundles[0].Config = []byte(`{"LeastCPUs": 1}`)
	if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), `config.LeastCPUs: Unsupported value: "LeastCPUs"`) {
		t.Errorf("a misspelled plugin: %v", err)
	}
	cfg = testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.Profiles[0].Priorities = append(cfg.Profiles[0].Priorities, WeightedPriority{Name: "MatchesLabels", Weight: 1})
	if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), "scheduler profile s: MatchesLabels is a predicate, not a priority") {
		t.Errorf("a predicate as a priority: %v", err)
	}
}
