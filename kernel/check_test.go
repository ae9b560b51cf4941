package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
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
	write(t, filepath.Join(dir, manifest.File), `apiVersion: kernel.pintle.dev/v1alpha1
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
	if err := seal.Seal(t.Context(), dir); err != nil {
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
			_, err = Check(cfg, filepath.Join(data, "pintle"))
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

// Who has a plugin of the former version and not the one that was split from it is
// warned, with the line.
func TestCheckSplits(t *testing.T) {
	bundles := t.TempDir()
	dir := filepath.Join(bundles, "nodes")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "nodes"), "#!/bin/false\n")
	if err := os.Chmod(filepath.Join(dir, "nodes"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, manifest.File), `apiVersion: kernel.pintle.dev/v1alpha1
kind: PluginManifest
name: nodes
version: 0.1.0
plugins:
- {name: whole, kind: controller}
- {name: part, kind: controller, splitFrom: whole}
- {name: beside, kind: controller, splitFrom: nothing-that-is-there}
`)
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for enabled, want := range map[string]string{
		"[]": "", "[whole, part]": "", "[part]": "",
		"[whole]": "kernel.yaml:7: controllers.enabled[0]: controller whole is in use without part, which does a part of what whole did in earlier versions: enable part, too, or nothing does that part",
	} {
		data := t.TempDir()
		file := filepath.Join(data, "kernel.yaml")
		write(t, file, `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: `+filepath.Join(data, "none")+`
plugins: {directories: [`+bundles+`], bundles: [{name: nodes}]}
controllers:
  enabled:
    `+enabled+`
`)
		cfg, err := config.Load(config.Source{File: file})
		if err != nil {
			t.Fatal(err)
		}
		warnings, err := Check(cfg, filepath.Join(data, "pintle"))
		if err != nil {
			t.Fatal(err)
		}
		if got := warnings.Error(); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", enabled, got, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Files that the API server reads at its start are read by the check, too, and each
// fault has the line of the key that names the file.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	good := []string{
		"auth:",
		"  authorizationConfig: " + file("authz.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n"),
		"  authenticationConfig: " + file("authn.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: false}\n"),
		"  tokenFile: " + file("tokens.csv", "t,u,1\n"),
		"admission:",
		"  config: " + file("admission.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: []\n"),
		"audit:",
		"  policyFile: " + file("audit.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"),
	}
	check := func(lines []string) error {
		path := file("kernel.yaml", strings.Join(append([]string{"apiVersion: config.pintle.dev/v1alpha1", "kind: KernelConfiguration"}, lines...), "\n")+"\n")
		cfg, err := config.Load(config.Source{File: path})
		if err != nil {
			t.Fatal(err)
		}
		return checkFiles(cfg)
	}
	if err := check(good); err != nil {
		t.Errorf("sound files: %v", err)
	}
	bad := file("bad", "kind: Nothing\n")
	section := ""
	for i, line := range good {
		key, _, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			section = strings.TrimSuffix(line, ":")
			continue
		}
		for _, path := range []string{bad, filepath.Join(dir, "absent")} {
			lines := append([]string{}, good...)
			lines[i] = "  " + key + ": " + path
			want := fmt.Sprintf("kernel.yaml:%d: %s.%s: ", i+3, section, key)
			if err := check(lines); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), section+"."+key) != 1 {
				t.Errorf("%s %s: %v, want %q", key, path, err, want)
			}
		}
	}
}

// What the API shall serve, and is not there, is named with the line of its key.
func TestCheckRuntimeConfig(t *testing.T) {
	for _, tc := range []struct {
		name, keys string
		want       []string
	}{
		{"fine", "{apps/v1/daemonsets: false, api/beta: true}", nil},
		{"names that are none", "\n    app/v1: true\n    apps/v1/daemonset: false\n    autoscaling/v1: false\n    batch/v9: true", []string{
			"kernel.yaml:7: api.runtimeConfig.app/v1: unknown api groups app/v1",
			`kernel.yaml:8: api.runtimeConfig.apps/v1/daemonset: invalid key apps/v1/daemonset: apps/v1 has no resource "daemonset"`,
			"kernel.yaml:10: api.runtimeConfig.batch/v9: group version batch/v9 that has not been registered",
		}},
		{"what the kernel needs", "{policy/v1: false}", []string{"kernel.yaml:6: api.runtimeConfig: policy/v1 is not served by api.runtimeConfig, and the kernel needs it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := t.TempDir()
			file := filepath.Join(data, "kernel.yaml")
			write(t, file, `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: `+filepath.Join(data, "none")+`
plugins: {directories: [`+data+`]}
api:
  runtimeConfig: `+tc.keys+"\n")
			cfg, err := config.Load(config.Source{File: file})
			if err != nil {
				t.Fatal(err)
			}
			err = checkFiles(cfg)
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}
