package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/kernel/plugin/wasm/meter"
)

// A disk on which the compiler cannot write is no fault of a module.
func TestFullDisk(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// Room for the folders, and for no file in them.
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256m,mode=0700,nr_inodes=4"); err != nil {
		t.Skipf("a small disk needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	b, err := manifest.ReadBundle(filepath.Join(catalog, "greeter"), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	a := b.Manifest.Artifacts.WASM
	m, err := wasm.Load(t.Context(), b, a, a.Digest, modulecache.New(dir, filepath.Join(data, "key"), nil), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Machine code beside a bundle counts for nothing, whoever put it there, and none is
// written there.
func TestCompiledBesideTheBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(catalog, "guest"))); err != nil {
		t.Fatal(err)
	}
	// What an earlier version read without a look at it: another module under the
	// name of this one's, without a counter of its work.
	b, err := manifest.ReadBundle(dir, "guest")
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(catalog, "podless", "podless.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(dir, ".compiled")
	planted := filepath.Join(beside, fmt.Sprintf("%s.metered-v%d.wasm", b.Manifest.Artifacts.WASM.Digest[len("sha256:"):], meter.Version))
	if err := os.MkdirAll(beside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(planted, other, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.Directories = []string{filepath.Dir(dir)}
	source := &testSource{}
	source.set(replica(3, 1))
	runHost(t, cfg, source)
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(beside); err != nil || len(left) != 1 {
		t.Errorf("beside the bundle: %v, %v", left, err)
	}
}
