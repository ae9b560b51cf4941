package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// protocLine says which protoc wrote a file; any does.
var protocLine = regexp.MustCompile(`(?m)^// (- |\t)protoc +v.*\n`)

// TestGeneratedCodeIsCurrent runs what make generate runs on copies of the
// packages that ask for it, and compares: generated code is reproducible, and what
// is checked in is what its source says now (issue 5).
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		skip(t, "the generators are run by go")
	}
	var packages []string
	for _, top := range []string{"../sdk", "../kernel"} {
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || e.Name() != "doc.go" {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte("\n//go:generate ")) {
				packages = append(packages, filepath.Dir(path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(packages) < 3 {
		t.Fatalf("only %v have a go:generate line in doc.go; the test looks at the wrong place", packages)
	}
	// A module of the same name, so that the generators find what they import.
	repository := t.TempDir()
	copyFile := func(path string) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(repository, strings.TrimPrefix(path, "../"))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	copyFile("../go.mod")
	copyFile("../go.sum")
	for _, dir := range packages {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			// Messages are left out: one without a source must not stay.
			if !f.IsDir() && !strings.HasSuffix(f.Name(), ".pb.go") && !strings.HasSuffix(f.Name(), "_test.go") {
				copyFile(filepath.Join(dir, f.Name()))
			}
		}
	}
	for _, dir := range packages {
		t.Run(strings.TrimPrefix(dir, "../"), func(t *testing.T) {
			if protos, _ := filepath.Glob(filepath.Join(dir, "*.proto")); len(protos) > 0 {
				if _, err := exec.LookPath("protoc"); err != nil {
					skip(t, "protoc is not installed (Debian: protobuf-compiler)")
				}
			}
			cmd := exec.CommandContext(t.Context(), "go", "generate", ".")
			cmd.Dir, cmd.WaitDelay = filepath.Join(repository, strings.TrimPrefix(dir, "../")), 5*time.Second
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("go generate: %v\n%s", err, out)
			}
		})
	}
	if t.Failed() {
		return
	}
	for _, dir := range packages {
		now, was := generated(t, filepath.Join(repository, strings.TrimPrefix(dir, "../"))), generated(t, dir)
		if len(now) == 0 { // skipped
			continue
		}
		for name, text := range was {
			if now[name] != text {
				t.Errorf("%s is not what its source says now: run make generate and commit it", filepath.Join(strings.TrimPrefix(dir, "../"), name))
			}
		}
		for name := range now {
			if _, there := was[name]; !there {
				t.Errorf("%s is not checked in: run make generate and commit it", filepath.Join(strings.TrimPrefix(dir, "../"), name))
			}
		}
	}
}

// generated reads the generated files of a folder.
func generated(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, form := range []string{"*.pb.go", "zz_generated*"} {
		paths, err := filepath.Glob(filepath.Join(dir, form))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(path)] = string(protocLine.ReplaceAll(data, nil))
		}
	}
	return files
}
