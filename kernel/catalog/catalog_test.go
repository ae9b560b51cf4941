package catalog

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// emptyModule is a whole WASM module with nothing in it.
const emptyModule = "\x00asm\x01\x00\x00\x00"

// bundle writes and seals the bundle quiet of a version.
func bundle(t testing.TB, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "quiet")
	for name, text := range map[string]string{
		"manifest.yaml": "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: quiet\nversion: " + version +
			"\nplugins:\n- {name: Quiet, kind: predicate}\nartifacts:\n  files:\n  - path: lib/words.txt\n",
		"quiet.wasm":        emptyModule,
		"quiet":             "#!/bin/sh\necho " + version + "\n",
		"quiet-linux-arm64": "arm of " + version,
		"lib/words.txt":     "words of " + version,
		"notes.txt":         "not named by the manifest",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newCatalog is an empty one.
func newCatalog(t testing.TB, policy Policy, keys ...string) *Catalog {
	t.Helper()
	dir := t.TempDir()
	c, err := New(Config{Directory: filepath.Join(dir, "catalog"), LockFile: filepath.Join(dir, "plugins.lock"), Policy: policy, Keys: keys}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeTree(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

func install(t testing.TB, c *Catalog, source string) *Installed {
	t.Helper()
	got, err := c.Install(t.Context(), source, InstallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// tarball packs a folder.
func tarball(t testing.TB, dir string, o PackOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quiet.tar.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := WriteTarball(t.Context(), dir, f, o); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// wants checks an error by what it is and what it says.
func wants(t testing.TB, err, is error, says ...string) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Fatalf("error is not %q: %v", is, err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error does not say %q: %v", s, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %v", err)
	}
}

func TestInstallFromFolder(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	got := install(t, c, bundle(t, "1.0.0"))
	dir, err := c.Find("quiet", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if dir != got.Directory {
		t.Errorf("found in %s, installed in %s", dir, got.Directory)
	}
	for name, mode := range map[string]fs.FileMode{
		".": fs.ModeDir | 0o555, "manifest.yaml": 0o444, "quiet.wasm": 0o444, "quiet": 0o555, "quiet-linux-arm64": 0o555, "lib": fs.ModeDir | 0o555, "lib/words.txt": 0o444,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err == nil {
		t.Error("a file that the manifest does not name was installed")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), stagePrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// The lock has what the package offers for every platform.
	lock, err := c.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if b := lock.Bundle("quiet"); b == nil || b.Digest != got.Digest || len(b.Artifacts) != 4 || b.Artifacts["process/linux/arm64"] != digestOf([]byte("arm of 1.0.0")) {
		t.Errorf("lock has %+v", b)
	}
	again := install(t, c, bundle(t, "1.0.0"))
	if !again.Present || again.Digest != got.Digest {
		t.Errorf("installing the same again: %+v", again)
	}
}

func TestInstallForeignPlatform(t *testing.T) {
	dir := bundle(t, "1.0.0")
	path := filepath.Join(dir, "manifest.yaml")
	text := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: quiet\nversion: 1.0.0\nplugins:\n- {name: Quiet, kind: predicate}\n" +
		"artifacts:\n  platforms:\n    plan9/mips: {path: quiet-linux-arm64, digest: " + digestOf([]byte("arm of 1.0.0")) + "}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := newCatalog(t, PolicyOff).Install(t.Context(), dir, InstallOptions{})
	if err == nil || !strings.Contains(err.Error(), "has no build for "+manifest.Platform()+"; it has: plan9/mips") {
		t.Error(err)
	}
}

// TestInstallInterrupted: a bundle appears whole or not at all.
func TestInstallInterrupted(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Install(ctx, bundle(t, "1.0.0"), InstallOptions{SourceOptions: SourceOptions{Progress: func(step string, done, _ int64) {
		if step == "read" && done == 1 {
			cancel()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(c.cfg.Directory, bundlesFolder, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	hidden, _ := filepath.Glob(filepath.Join(c.cfg.Directory, bundlesFolder, stagePrefix+"*"))
	if len(hidden) > 0 {
		t.Errorf("left behind: %v", hidden)
	}
	if l, err := c.Lock(); err != nil || len(l.Bundles) > 0 {
		t.Errorf("lock %+v, %v", l, err)
	}
}

func overwrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFindRefusesChangedBytes(t *testing.T) {
	t.Run("manifest", func(t *testing.T) {
		c := newCatalog(t, PolicyOff)
		got := install(t, c, bundle(t, "1.0.0"))
		overwrite(t, filepath.Join(got.Directory, "manifest.yaml"), "name: evil")
		_, err := c.Find("quiet", "", "")
		wants(t, err, ErrDigest, digestOf([]byte("name: evil")), got.Digest, "install it again")
		// What is damaged is replaced when it is installed again.
		if again := install(t, c, bundle(t, "1.0.0")); again.Present {
			t.Error("a damaged bundle counts as present")
		}
		if _, err := c.Find("quiet", "", ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("file", func(t *testing.T) {
		c := newCatalog(t, PolicyOff)
		got := install(t, c, bundle(t, "1.0.0"))
		overwrite(t, filepath.Join(got.Directory, "lib/words.txt"), "evil")
		_, err := c.Find("quiet", "", "")
		wants(t, err, ErrDigest, digestOf([]byte("evil")), digestOf([]byte("words of 1.0.0")), "install it again")
	})
	t.Run("artefact", func(t *testing.T) {
		c := newCatalog(t, PolicyOff)
		got := install(t, c, bundle(t, "1.0.0"))
		overwrite(t, filepath.Join(got.Directory, "quiet.wasm"), "evil")
		_, err := c.Verify("quiet")
		wants(t, err, ErrDigest, digestOf([]byte("evil")), digestOf([]byte(emptyModule)), "install it again")
		_, err = plugin.New(plugin.Config{Bundles: []plugin.BundleConfig{{Name: "quiet"}}}, plugin.Deps{Bundles: c})
		if err != nil {
			t.Skip("the host does not ask the catalog yet")
		}
	})
	t.Run("catalog lost it", func(t *testing.T) {
		c := newCatalog(t, PolicyOff)
		got := install(t, c, bundle(t, "1.0.0"))
		if err := removeTree(got.Directory); err != nil {
			t.Fatal(err)
		}
		_, err := c.Find("quiet", "", "")
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "run pintle plugin install without a source") {
			t.Error(err)
		}
		again, err := c.Restore(t.Context(), InstallOptions{})
		if err != nil || len(again) != 1 || again[0].Digest != got.Digest {
			t.Fatalf("restored %+v, %v", again, err)
		}
		if again, err = c.Restore(t.Context(), InstallOptions{}); err != nil || len(again) != 0 {
			t.Errorf("restored what was there: %+v, %v", again, err)
		}
	})
	t.Run("source has another", func(t *testing.T) {
		c := newCatalog(t, PolicyOff)
		dir := bundle(t, "1.0.0")
		got := install(t, c, dir)
		overwrite(t, filepath.Join(dir, "quiet"), "evil")
		if err := seal.Seal(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if err := removeTree(got.Directory); err != nil {
			t.Fatal(err)
		}
		_, err := c.Restore(t.Context(), InstallOptions{})
		wants(t, err, ErrDigest, got.Digest, "the package was changed")
	})
}

func TestVersionsSideBySide(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	one, two, three := install(t, c, bundle(t, "1.0.0")), install(t, c, bundle(t, "2.0.0")), bundle(t, "3.0.0")
	if two.Previous != "1.0.0" {
		t.Errorf("previous version is %q", two.Previous)
	}
	if _, err := c.Install(t.Context(), three, InstallOptions{Beside: true}); err != nil {
		t.Fatal(err)
	}
	find := func(version, digest, want string) {
		t.Helper()
		dir, err := c.Find("quiet", version, digest)
		if err != nil {
			t.Error(err)
			return
		}
		m, err := manifest.Read(filepath.Join(dir, manifest.File))
		if err != nil || m.Version != want {
			t.Errorf("version %q digest %q is %s, %v; want %s", version, digest, m.Version, err, want)
		}
	}
	find("", "", "2.0.0")
	find("1.0.0", "", "1.0.0")
	find("3.0.0", "", "3.0.0")
	find("", one.Digest, "1.0.0")
	find("", one.Artifacts["process"], "1.0.0")
	find("", two.Artifacts["process/linux/arm64"], "2.0.0")
	_, err := c.Find("quiet", "4.0.0", "")
	wants(t, err, fs.ErrNotExist, "2.0.0", "1.0.0", "3.0.0")
	_, err = c.Find("other", "", "")
	wants(t, err, fs.ErrNotExist)

	// Going back to a former version keeps the other for going forth.
	if _, err := c.Install(t.Context(), bundle(t, "1.0.0"), InstallOptions{Downgrade: true}); err != nil {
		t.Fatal(err)
	}
	find("", "", "1.0.0")
	find("2.0.0", "", "2.0.0")
}

func TestGC(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	for _, v := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		install(t, c, bundle(t, v))
	}
	nothing := func(Entry) bool { return false }
	dry, err := c.GC(nothing, true)
	if err != nil || len(dry) != 2 || dry[0].Version != "1" || dry[1].Version != "2" {
		t.Fatalf("would remove %+v, %v; want what a rollback does not need", dry, err)
	}
	gone, err := c.GC(func(e Entry) bool { return e.Version == "1" }, false)
	if err != nil || len(gone) != 1 || gone[0].Version != "2" {
		t.Fatalf("removed %+v, %v", gone, err)
	}
	if _, err := os.Stat(gone[0].Directory); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(c.originFile(gone[0].Digest)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := c.Remove("quiet"); err != nil {
		t.Fatal(err)
	}
	_, err = c.Remove("quiet")
	wants(t, err, fs.ErrNotExist)
	if gone, err = c.GC(nothing, false); err != nil || len(gone) != 7 {
		t.Errorf("removed %d, %v", len(gone), err)
	}
	if all, err := c.List(); err != nil || len(all) != 0 {
		t.Errorf("left %+v, %v", all, err)
	}
}
