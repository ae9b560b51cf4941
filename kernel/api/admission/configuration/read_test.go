package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/secretfile"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"

// Configurations are inline or in files beside; what is wrong is refused by name.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("beside.yaml", "a: b\n")
	write("large.yaml", strings.Repeat("#", secretfile.MaxSize+1))
	if err := os.Chmod(write("open.yaml", "a: b\n"), 0o602); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ content, fault string }{
		"inline and beside": {head + "- {name: One, configuration: {some: thing}}\n- {name: Two, path: beside.yaml}\n", ""},
		"unknown":           {head + "- {name: Three, path: beside.yaml}\n", `no plugin "Three" takes a configuration; those that do are One, Two`},
		"twice":             {head + "- {name: One, path: beside.yaml}\n- {name: One, path: beside.yaml}\n", "is there twice"},
		"both":              {head + "- {name: One, path: beside.yaml, configuration: {}}\n", "both configuration and path"},
		"neither":           {head + "- {name: One}\n", "has no configuration"},
		"no file":           {head + "- {name: One, path: absent}\n", "no such file"},
		"large":             {head + "- {name: One, path: large.yaml}\n", "at most"},
		"others may write":  {head + "- {name: One, path: open.yaml}\n", "everybody may write it"},
		"unknown field":     {head + "- {name: One, paths: x}\n", `unknown field "plugins[0].paths"`},
		"another kind":      {"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: []\n", "is of another kind"},
		"a plugin's own":    {"imagePolicy: {}\n", "want an AdmissionConfiguration"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(write("admission.yaml", test.content), []string{"One", "Two"})
			if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Fatal(err)
			}
			if err == nil && (!strings.Contains(string(got["One"]), `"some":"thing"`) || string(got["Two"]) != "a: b\n" || got.Reader("One") == nil || got.Reader("None") != nil) {
				t.Errorf("%q", got)
			}
		})
	}
}
