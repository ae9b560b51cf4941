package sealed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const built = "artifacts:\n  wasm:\n    path: x.wasm\n    digest: sha256:built\n"

type whole struct {
	Name      string
	Artifacts struct {
		WASM  struct{ Path, Digest string }
		Files []struct{ Path string }
	}
	Plugins []struct{ Name string }
}

// The two files are one manifest, in which the author's lines keep their numbers; one
// that names digests is whole, whatever lies beside it.
func TestJoin(t *testing.T) {
	for name, c := range map[string]struct {
		manifest, digest string
		plugins          int // the line of that key
	}{
		"no artefacts":            {"name: x # a comment\nplugins: [{name: P}]", "sha256:built", 2},
		"between others":          {"name: x\nartifacts:\n  files:\n  - path: a\n# of the plugins\nplugins: [{name: P}]\n", "sha256:built", 6},
		"at the end":              {"name: x\nplugins: [{name: P}]\nartifacts: {files: [{path: a}]}\n", "sha256:built", 2},
		"at the start":            {"artifacts:\n  wasm: {path: x.wasm}\nname: x\nplugins: [{name: P}]\n\n\n", "sha256:built", 4},
		"JSON":                    {`{"name": "x", "plugins": [{"name": "P"}], "artifacts": {}}`, "sha256:built", 0},
		"indented":                {"  name: x\n  plugins: [{name: P}]\n", "sha256:built", 0},
		"its own digest":          {"name: x\nplugins: [{name: P}]\nartifacts: {wasm: {path: x.wasm, digest: \"sha256:own\"}}\n", "sha256:own", 2},
		"a digest of a file only": {"name: x\nplugins: [{name: P}]\nartifacts: {files: [{path: a, digest: \"sha256:own\"}]}\n", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{manifest: c.manifest, File: built} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			data, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got whole
			if err := yaml.Unmarshal(data, &got); err != nil {
				t.Fatalf("%v in\n%s", err, data)
			}
			if got.Name != "x" || len(got.Plugins) != 1 || got.Artifacts.WASM.Digest != c.digest {
				t.Errorf("%+v of\n%s", got, data)
			}
			if lines := strings.Split(string(data), "\n"); c.plugins > 0 && !strings.HasPrefix(lines[c.plugins-1], "plugins:") {
				t.Errorf("line %d is %q", c.plugins, lines[c.plugins-1])
			}
			if again, err := Join(data, []byte("artifacts: {wasm: {digest: \"sha256:other\"}}")); err != nil || string(again) != string(data) {
				t.Errorf("joined again: %v\n%s", err, again)
			}
		})
	}
}

// What a build never wrote is refused: nothing but artefacts comes from its file.
func TestForeignFile(t *testing.T) {
	for _, text := range []string{"", "[]", "name: y\n", built + "privileged: true\n", "artifacts: [\n", "- artifacts"} {
		if out, err := Join([]byte("name: x\n"), []byte(text)); err == nil {
			t.Errorf("%q: %s", text, out)
		}
	}
	// What cannot be parsed is told of by who parses it.
	for _, text := range []string{"", "name: [", "just words"} {
		if out, err := Join([]byte(text), []byte(built)); err != nil || string(out) != text {
			t.Errorf("%q: %q, %v", text, out, err)
		}
	}
}
