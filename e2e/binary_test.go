package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// binary returns the path of a built program; without it the test fails,
// since `make test` builds first.
func binary(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: run make build", path)
	}
	return path
}
