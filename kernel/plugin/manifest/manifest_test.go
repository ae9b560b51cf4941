package manifest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const good = `apiVersion: kernel.pintle.dev/v1alpha1
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
	m, err := Parse("m.yaml", []byte(good))
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
			text := strings.Replace(good, tc.old, tc.with, 1)
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := Parse("m.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
	if _, err := Parse("m.yaml", nil); err == nil || !strings.Contains(err.Error(), "m.yaml:1: empty") {
		t.Errorf("empty: %v", err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("plugins: [{name: x}]\n"))
	f.Add([]byte("- 1\n- 2\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte(good + "artifacts: {platforms: {linux/arm64: {path: b, digest: 'sha256:" + strings.Repeat("a", 64) + "'}, x: null}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("m.yaml", data)
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

// manyNamespaces are as many rules, each of another namespace.
func manyNamespaces(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {namespace: n%d, apiGroups: [apps], resources: [deployments], verbs: [get]}\n", i)
	}
	return b.String()
}
