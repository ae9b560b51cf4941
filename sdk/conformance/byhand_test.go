package conformance

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"pintle.dev/pintle/sdk/artifact"
)

// A module that was written from ABI.md alone, without a header or a template,
// passes the suite (issue 5: any language). What it had to guess is to be added to
// the page.
func TestThePageSuffices(t *testing.T) {
	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Skip("there is no clang (Debian: clang lld)")
	}
	if _, err := exec.LookPath("wasm-ld"); err != nil {
		t.Skip("there is no wasm-ld (Debian: lld)")
	}
	path := filepath.Join(t.TempDir(), "byhand.wasm")
	cmd := exec.CommandContext(t.Context(), clang, "--target=wasm32", "-O2", "-Wall", "-Wextra", "-Werror",
		"-ffreestanding", "-nostdlib", "-Wl,--no-entry", "-o", path, filepath.Join("testdata", "byhand", "main.c"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m, err := artifact.LoadModule(t.Context(), path, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	cases, err := ReadCases(filepath.Join("testdata", "byhand"))
	if err != nil || len(cases) != 1 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	if err := cases[0].Run(t.Context(), m.Open); err != nil {
		t.Error(err)
	}
	results, err := Check(t.Context(), m.Open, Options{Words: WordsOf(cases)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Faults(results) {
		t.Errorf("%s: %s", f.Check, f.Fault)
	}
}
