package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/sealed"
)

// installedBundles are folders by the names of their bundles.
type installedBundles map[string]string

func (b installedBundles) Find(name, _, _ string) (string, error) {
	if dir := b[name]; dir != "" {
		return dir, nil
	}
	return "", fmt.Errorf("plugin bundle %s: %w", name, fs.ErrNotExist)
}

func (installedBundles) Replaces(string) bool { return false }

func (installedBundles) Builds(_, _ string) []string { return nil }

// copied makes a bundle of another name of the guest's builds, with its manifest
// changed.
func copied(t *testing.T, name string, change func(manifest string) string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(catalog, "guest"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, manifest.File)
	text, err := sealed.Read(dir) // as the catalog has it
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(strings.Replace(string(text), "name: guest", "name: "+name, 1))), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An installed bundle that cannot be used keeps neither the host from starting nor
// another bundle from being loaded, and says how to get rid of it; one that the
// configuration uses is the end.
func TestBrokenInstalledBundleIsSetAside(t *testing.T) {
	renamed := func(m string) string { return strings.ReplaceAll(m, "FitsCPU", "FitsCPU2") }
	for name, c := range map[string]struct {
		change func(string) string
		fault  string
	}{
		"clash":      {func(m string) string { return m }, "plugin FitsCPU is in bundle guest and in bundle bad; load one of them; pintle plugin remove bad takes it away"},
		"unreadable": {func(string) string { return "apiVersion: kernel.pintle.dev/v9\nkind: [" }, "pintle plugin remove bad takes it away"},
		"no build":   {func(m string) string { return renamed(strings.ReplaceAll(m, "guest.wasm", "absent.wasm")) }, "absent.wasm"},
	} {
		t.Run(name, func(t *testing.T) {
			deps := Deps{Bundles: installedBundles{"bad": copied(t, "bad", c.change)}}
			cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
			cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "bad", Installed: true, Transport: manifest.TransportWASM})
			h := runHostWith(t, cfg, nil, deps)
			if err := h.Fault("bad"); err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("fault %v, want %q", err, c.fault)
			}
			if err := h.Fault("guest"); err != nil {
				t.Errorf("the sound bundle has fault %v", err)
			}
			// Another one is loaded all the same.
			deps.Bundles.(installedBundles)["podless"] = filepath.Join(catalog, "podless")
			next := cfg
			next.Bundles = append(next.Bundles, BundleConfig{Name: "podless", Installed: true, Transport: manifest.TransportWASM})
			if err := h.Reconfigure(next); err != nil {
				t.Fatal(err)
			}
			if len(h.present().units) != 2 {
				t.Errorf("%d bundles are loaded, want guest and podless", len(h.present().units))
			}

			used := testConfig(t, manifest.TransportWASM, "FitsCPU", "Only")
			used.Bundles = cfg.Bundles
			if _, err := New(used, deps); err == nil || !strings.Contains(err.Error(), `"Only"`) || !strings.Contains(err.Error(), "pintle plugin remove bad") {
				t.Errorf("a profile with its plugin: %v, want what is missing and why", err)
			}
		})
	}
}

// An installed bundle that starts but breaks its word is set aside when somebody
// wants it, and the rest of the change holds.
func TestInstalledBundleThatCannotStartIsSetAside(t *testing.T) {
	liar := func(m string) string {
		m = strings.ReplaceAll(m, "{name: FitsCPU, kind: predicate, scope: node}", "{name: Absent, kind: predicate}")
		for _, name := range []string{"MatchesLabels", "LeastCPU", "LoopsForEver", "AllocatesWithoutEnd", "Wastes", "Panics", "Moody", "Prints", "Recurses"} {
			for _, line := range strings.SplitAfter(m, "\n") {
				if strings.Contains(line, "name: "+name+",") || strings.HasSuffix(strings.TrimSpace(line), "name: "+name) {
					m = strings.ReplaceAll(m, "name: "+name, "name: "+name+"2")
					break
				}
			}
		}
		return m
	}
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "bad", Installed: true, Transport: manifest.TransportWASM})
	h := runHostWith(t, cfg, nil, Deps{Bundles: installedBundles{"bad": copied(t, "bad", liar)}})
	if !h.present().enabled("FitsCPU") {
		t.Error("the sound bundle is not in force")
	}
}
