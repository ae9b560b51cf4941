package templates

import (
	"bytes"
	"go/format"
	"os"
	"path"
	"strings"
	"testing"
)

// limits are the lines that a first plugin in Go may take, with package and imports.
var limits = map[string]int{"predicate": 15, "controller": 30}

// Every template comes out whole, and Go formatted.
func TestRender(t *testing.T) {
	for _, language := range Languages() {
		for _, kind := range Kinds(language) {
			t.Run(language+"/"+kind, func(t *testing.T) {
				files, err := Render(language, kind, Values{Name: "quiet-hours", SDK: "/src/pintle", Go: "1.26.0", Contract: os.DirFS("../contract/v1")})
				if err != nil {
					t.Fatal(err)
				}
				manifest := string(files["manifest.yaml"])
				for _, want := range []string{"name: quiet-hours\n", "kind: " + kind + "\n"} {
					if !strings.Contains(manifest, want) {
						t.Errorf("the manifest lacks %q:\n%s", want, manifest)
					}
				}
				for name, data := range files {
					if bytes.Contains(data, []byte("[[.")) || strings.HasSuffix(name, ".tmpl") {
						t.Errorf("%s is not filled in", name)
					}
					if !bytes.HasSuffix(data, []byte("\n")) || bytes.HasSuffix(data, []byte("\n\n")) || bytes.Contains(data, []byte(" \n")) {
						t.Errorf("%s has space at the end of a line or of the file", name)
					}
					if path.Ext(name) != ".go" {
						continue
					}
					if formatted, err := format.Source(data); err != nil || !bytes.Equal(formatted, data) {
						t.Errorf("%s is not formatted (%v)", name, err)
					}
				}
				if limit := limits[kind]; language == "go" && limit > 0 {
					if lines := bytes.Count(files["main.go"], []byte("\n")); lines > limit {
						t.Errorf("main.go has %d lines, at most %d", lines, limit)
					}
				}
			})
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, name := range []string{"", "-a", "a-", "1a", "a/b", "..", "a b", strings.Repeat("a", 51)} {
		if _, err := Render("go", "predicate", Values{Name: name}); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	if _, err := Render("cobol", "predicate", Values{Name: "a"}); err == nil || !strings.Contains(err.Error(), "there are go") {
		t.Errorf("language cobol: %v", err)
	}
	for _, refused := range []struct{ language, kind, want string }{
		{"c", "proxy", "runs as a process"},
		{"rust", "network", "runs as a process"},
		{"rust", "permit", "answers pintle_cycle by hand (sdk/ABI.md"},
		{"node", "controller", "serves that contract by hand (sdk/contract/v1)"},
		{"node", "runtime", "runs as a process"},
		{"assemblyscript", "sidecar", `no kind of plugin "sidecar"; in assemblyscript there are admission, controller, predicate, priority`},
	} {
		_, err := Render(refused.language, refused.kind, Values{Name: "a"})
		if err == nil || !strings.Contains(err.Error(), refused.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("a %s in %s: %v, want one line with %q", refused.kind, refused.language, err, refused.want)
		}
	}
}
