package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildLeavesTheSource: a build writes nothing into what an author keeps under
// version control, and does not seal a manifest that is not true of what was built.
func TestBuildLeavesTheSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "predicate", "tiers")
	bundle := filepath.Join(dir, "tiers")
	manifest := filepath.Join(bundle, "manifest.yaml")
	text := read(t, manifest) + "\n\n# a comment,   kept as it is\nlimits:   {memory: 64Mi}\n"
	write(t, manifest, text)
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = bundle
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	git("init", "--quiet")
	git("add", "--all")
	git("commit", "--quiet", "--message", "the source")
	author(t, dir, "plugin", "build", "tiers")
	if out := git("status", "--short"); out != "" || read(t, manifest) != text {
		t.Errorf("after a build:\n%s\n%s", out, read(t, manifest))
	}
	// The package has both files as one manifest, and the digest of the folder.
	author(t, dir, "plugin", "package", "tiers", "-f", "tiers.tar.gz")
	list, err := exec.Command("tar", "-tzf", filepath.Join(dir, "tiers.tar.gz")).Output()
	if err != nil || string(list) != "manifest.yaml\ntiers.wasm\ntiers\n" {
		t.Errorf("the package holds %q, %v", list, err)
	}
	digest := func(source string) string {
		var got struct{ Digest string }
		if err := json.Unmarshal([]byte(author(t, dir, "plugin", "inspect", source, "-o", "json")), &got); err != nil || got.Digest == "" {
			t.Fatalf("inspect %s: %v", source, err)
		}
		return got.Digest
	}
	if packed, folder := digest("tiers.tar.gz"), digest("./tiers"); packed != folder {
		t.Errorf("the package has digest %s, its folder %s", packed, folder)
	}
	// Of the other kinds a build is what its template's manifest says, too.
	author(t, dir, "plugin", "init", "admission", "team")
	author(t, dir, "plugin", "build", "team")
	// A module alone, under no source, is tested as it lies there.
	alone := filepath.Join(dir, "alone")
	if err := os.Mkdir(alone, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(alone, "manifest.yaml"), text)
	built, _, _ := strings.Cut(read(t, filepath.Join(bundle, "artifacts.yaml")), "  process:")
	write(t, filepath.Join(alone, "artifacts.yaml"), built)
	write(t, filepath.Join(alone, "tiers.wasm"), read(t, filepath.Join(bundle, "tiers.wasm")))
	contains(t, author(t, dir, "plugin", "test", "alone", "--no-build"), "deltas and a fresh replica agree")
	if out := author(t, dir, "plugin", "test", "tiers", "--quick"); strings.Contains(out, "process") || strings.Contains(out, "go test") || !strings.Contains(out, "case a pod of a tier") {
		t.Errorf("a quick test runs\n%s", out)
	}
	for what, c := range map[string]struct{ old, new, want string }{
		"a name that the build lacks": {"name: Tiers", "name: Tears", "promises predicate Tears, which the artefact does not provide; it provides: predicate Tiers"},
		"another kind":                {"kind: predicate", "kind: priority", "promises priority Tiers, which the artefact does not provide"},
		"a version without order":     {"version: 0.1.0", "version: one", `version "one": want one as in semver`},
		"an unknown verb":             {"kind: predicate", "kind: predicate\n  rules: [{apiGroups: [\"\"], resources: [nodes], verbs: [gett]}]", `"gett"; did you mean "get"?`},
		"an unknown key":              {"kind: predicate", "knid: predicate", `unknown key knid in entry; did you mean "kind"?`},
		"a number for a time":         {"limits:", "timeouts: {call: 5}\nlimits:", "5 has no unit; want a duration such as 5s or 5ms"},
		"a size in words":             {"64Mi", "huge", `limits.memory: "huge"`},
	} {
		write(t, manifest, strings.Replace(text, c.old, c.new, 1))
		cmd := exec.Command(binary(t, "pintle"), "plugin", "build", "tiers", "--target", "wasm")
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stderr = &out
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s\nwant %q", what, err, out.String(), c.want)
		}
		if len(out.String()) > 600 {
			t.Errorf("%s: %d bytes of a message", what, out.Len())
		}
	}
	if err := os.Remove(filepath.Join(bundle, "artifacts.yaml")); err != nil {
		t.Error(err)
	}
}
