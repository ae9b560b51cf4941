package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodManifest = `apiVersion: kernel.pintle.dev/v1alpha1
kind: PluginManifest
name: b
version: 1.0.0
plugins:
- name: p
  kind: predicate
- name: c
  kind: controller
  rules:
  - {apiGroups: [apps], resources: [deployments], verbs: [get]}
timeouts: {call: 50ms, start: 2m}
limits: {memory: 64Mi}
`

func TestParseManifest(t *testing.T) {
	m, err := ParseManifest("m.yaml", []byte(goodManifest))
	if err != nil {
		t.Fatal(err)
	}
	if m.Limits.MemoryLimit() != 64<<20 || m.Plugins[1].Rules[0].APIGroups[0] != "apps" || m.Timeouts.Call.Milliseconds() != 50 {
		t.Errorf("got %+v", m)
	}
	for _, tc := range []struct{ name, old, with, want string }{
		{"unknown key", "version: 1.0.0", "version: 1.0.0\nverzion: 2", "m.yaml:5: unknown key verzion in manifest"},
		{"wrong type", "version: 1.0.0", "version: [1]", "m.yaml:4: cannot unmarshal"},
		{"not yaml", "name: b", "name: [b", "m.yaml:"},
		{"api version", "v1alpha1", "v9", `m.yaml:1: apiVersion: "kernel.pintle.dev/v9"; want kernel.pintle.dev/v1alpha1`},
		{"kind", "PluginManifest", "Pod", `m.yaml:2: kind: "Pod"; want PluginManifest`},
		{"name", "name: b", "name: ../b", `m.yaml:3: name: "../b"`},
		{"a key that is nearly one", "name: b", "name: b\nplugin: []", `m.yaml:4: unknown key plugin in manifest; did you mean "plugins"?`},
		{"a duration without a unit", "call: 50ms", "call: 5", "5 has no unit; want a duration such as 5s or 5ms"},
		{"plugin kind", "kind: predicate", "kind: filter", `m.yaml:7: plugins.0.kind: "filter"; want one of predicate`},
		{"twice", "name: c", "name: p", "m.yaml:8: plugins.1.name: p is there twice"},
		{"scope of a controller", "kind: controller", "kind: controller\n  scope: node", "m.yaml:10: plugins.1.scope"},
		{"group versions of a controller", "kind: controller", "kind: controller\n  groupVersions: [{group: n.example.com, version: v1}]", "m.yaml:10: plugins.1.groupVersions: for plugins of kind apiserver; this is a controller"},
		{"an API server of nothing", "kind: controller", "kind: apiserver", "plugins.1.groupVersions: missing; name what the plugin serves"},
		{"an API server of apps", "kind: controller", "kind: apiserver\n  groupVersions: [{group: apps, version: v1}]", `m.yaml:10: plugins.1.groupVersions.0.group: "apps"; want a domain of yours`},
		{"a key of a group version", "kind: controller", "kind: apiserver\n  groupVersions: [{group: n.example.com, versoin: v1}]", `m.yaml:10: unknown key versoin in groupversion; did you mean "version"?`},
		{"no verbs", ", verbs: [get]", "", "m.yaml:11: plugins.1.rules.0: a rule without verbs"},
		{"no namespace", ", verbs: [get]", ", verbs: [get], namespace: ../x", `m.yaml:11: plugins.1.rules.0.namespace: "../x" is not the name of a namespace`},
		{"paths in a namespace", ", verbs: [get]", ", verbs: [get], nonResourceURLs: [/metrics], namespace: x", "m.yaml:11: plugins.1.rules.0.namespace: nonResourceURLs are in no namespace"},
		{"many namespaces", "  rules:\n", "  rules:\n" + manyNamespaces(17), "plugins.1.rules.16.namespace: rules of more than 16 namespaces"},
		{"timeout", "call: 50ms", "call: 11m", "timeouts.call: 11m0s; want 0 to 10m"},
		{"memory", "64Mi", "2Ti", `m.yaml:13: limits.memory: "2Ti"; want 1Mi to 1Ti`},
		{"split from itself", "name: c", "name: c\n  splitFrom: c", `m.yaml:9: plugins.1.splitFrom: "c"; want the name of another plugin`},
		{"split from no name", "name: c", "name: c\n  splitFrom: ../c", `m.yaml:9: plugins.1.splitFrom: "../c"; want`},
		{"on failure", "limits:", "onFailure: explode\nlimits:", `onFailure: "explode"; want refuse or ignore`},
		{"path", "limits:", "artifacts: {wasm: {path: ../x.wasm, digest: abc}}\nlimits:", `artifacts.wasm.path: "../x.wasm"; want a path inside`},
		{"an end of a process that no request starts", "call: 50ms", "idle: 5m", "m.yaml:12: timeouts.idle: for bundles of plugins of kind apiserver, which requests start;"},
		{"an end at once", "call: 50ms", "idle: 10ms", "timeouts.idle: 10ms; want 1s to 24h"},
		{"a negative end", "call: 50ms", "idle: -1s", "timeouts.idle: -1s; want 1s to 24h"},
		{"an end without a unit", "call: 50ms", "idle: 90", "90 has no unit; want a duration such as 90s"},
		{"digest", "limits:", "artifacts: {wasm: {path: x.wasm, digest: abc}}\nlimits:", `artifacts.wasm.digest: "abc"; want sha256:`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(goodManifest, tc.old, tc.with, 1)
			if text == goodManifest {
				t.Fatal("the case changes nothing")
			}
			_, err := ParseManifest("m.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
	if _, err := ParseManifest("m.yaml", nil); err == nil || !strings.Contains(err.Error(), "m.yaml:1: empty") {
		t.Errorf("empty: %v", err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte("plugins: [{name: x}]\n"))
	f.Add([]byte("- 1\n- 2\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte(goodManifest + "artifacts: {platforms: {linux/arm64: {path: b, digest: 'sha256:" + strings.Repeat("a", 64) + "'}, x: null}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest("m.yaml", data)
		if err == nil && (m.Name == "" || len(m.Plugins) == 0) {
			t.Errorf("accepted %q", data)
		}
		if err != nil {
			return
		}
		for _, a := range m.Artifacts.All() {
			if !filepath.IsLocal(a.Path) || !digestForm.MatchString(a.Digest) {
				t.Errorf("pins %+v", a)
			}
		}
	})
}

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
	path := filepath.Join(catalog, "guest", ManifestFile)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Seal(t.Context(), filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(before) != string(after) {
		t.Errorf("sealing again changed the manifest (%v):\n%s", err, after)
	}
	if err := Seal(t.Context(), t.TempDir()); err == nil {
		t.Error("sealed a folder without a manifest")
	}
}

// manyNamespaces are as many rules, each of another namespace.
func manyNamespaces(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {namespace: n%d, apiGroups: [apps], resources: [deployments], verbs: [get]}\n", i)
	}
	return b.String()
}
