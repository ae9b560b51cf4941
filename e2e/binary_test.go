package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"pintle.dev/pintle/e2e/cluster"
)

// binary returns the path of a built program; without it the test fails,
// since `make test` builds first.
func binary(t testing.TB, name string) string {
	t.Helper()
	bin, err := cluster.Bin()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: run make build", path)
	}
	return path
}
