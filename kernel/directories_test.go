package kernel

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/nodepart"
)

// TestRemoveDirectories: a kernel that ends takes its own sockets away, and nothing from a runtime that it did not
// stop: containers of a killed kernel go on there until a start finds them.
func TestRemoveDirectories(t *testing.T) {
	exists := func(path string) bool {
		t.Helper()
		_, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	d, err := prepareDirectories(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	live, done, api := filepath.Join(d.run, nodepart.RuntimeState+"live"), filepath.Join(d.run, nodepart.RuntimeState+"done"), filepath.Join(d.run, "api")
	for _, dir := range []string{filepath.Join(live, "state"), done, api} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.remove(); err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(live, "state")) || exists(done) || exists(api) {
		t.Errorf("live runtime: %v, stopped runtime: %v, api: %v; want true, false, false", exists(live), exists(done), exists(api))
	}
	if err := os.RemoveAll(live); err != nil {
		t.Fatal(err)
	}
	if err := d.remove(); err != nil {
		t.Fatal(err)
	}
	if exists(d.run) {
		t.Error("an empty folder is left")
	}
	if err := d.remove(); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

// TestDirectoriesOfOthers: what another user of the machine made, or may write, is not taken for the kernel's own.
func TestDirectoriesOfOthers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	long := filepath.Join(t.TempDir(), strings.Repeat("d", maxSocketDir))
	if _, err := prepareDirectories(long, false); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(os.TempDir(), "pintle-"+shortHash(long))
	if err := os.Chmod(run, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDirectories(long, false); err == nil {
		t.Error("a run directory that all may write is used")
	}
	if err := os.Remove(run); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), run); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDirectories(long, false); err == nil {
		t.Error("a link in the place of the run directory is followed")
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDirectories(open, false); err == nil {
		t.Error("a data directory that all may write is used")
	}
}

// Folders that others could look into are closed at the start, with a line in the
// log. A folder of the machine that was named by mistake stays as it is.
func TestFoldersAreClosed(t *testing.T) {
	for _, tt := range []struct {
		name         string
		beside       string
		closed, left []string
	}{
		{"the kernel's own", "", []string{"", "store", "plugins", "node", "run", "pki"}, []string{"runtime"}},
		{"network policies", "networkpolicy", []string{"", "store", "plugins", "node", "run", "pki"}, []string{"runtime"}},
		{"simulated nodes", "hollow", []string{"", "store", "plugins", "node", "run", "pki"}, []string{"runtime", "hollow"}},
		{"a lock that a write left", ".plugins.lock.12", []string{"", "store", "plugins", "node", "run", "pki"}, []string{"runtime"}},
		{"a name that begins alike", "node_modules", []string{"store", "plugins", "node", "run", "pki"}, []string{"", "runtime", "node_modules"}},
		{"another's hidden folder", ".ssh", []string{"store", "plugins", "node", "run", "pki"}, []string{"", "runtime"}},
		{"beside other things", "Documents", []string{"store", "plugins", "node", "run", "pki"}, []string{"", "runtime", "Documents"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short, err := os.MkdirTemp("", "d") // a long one has its sockets elsewhere
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(short) })
			data := filepath.Join(short, "d")
			for _, name := range []string{"", "store", "plugins", "node", "run", "pki", tt.beside} {
				if err := errors.Join(os.MkdirAll(filepath.Join(data, name), 0o755), os.Chmod(filepath.Join(data, name), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			// Containers of any user pass through it on the way to their mounts.
			if err := errors.Join(os.MkdirAll(filepath.Join(data, "runtime"), 0o711), os.Chmod(filepath.Join(data, "runtime"), 0o711)); err != nil {
				t.Fatal(err)
			}
			d, err := prepareDirectories(data, false)
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			if err := d.closeToOthers(slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			for _, name := range tt.closed {
				info, err := os.Stat(filepath.Join(data, name))
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%q: %v %v", name, info.Mode(), err)
				}
				if !strings.Contains(log.String(), "directory="+filepath.Join(data, name)+" ") {
					t.Errorf("no line about %q:\n%s", name, log.String())
				}
			}
			for _, name := range tt.left {
				if info, err := os.Stat(filepath.Join(data, name)); err != nil || info.Mode().Perm() == 0o700 {
					t.Errorf("%q: %v %v", name, info.Mode(), err)
				}
			}
			if open := slices.Contains(tt.left, ""); strings.Contains(log.String(), "found="+tt.beside) != open {
				t.Errorf("log:\n%s", log.String())
			}
			log.Reset()
			if err := d.closeToOthers(slog.New(slog.NewTextHandler(&log, nil))); err != nil || strings.Contains(log.String(), "is closed now") {
				t.Errorf("again: %v %s", err, log.String())
			}
		})
	}
}

// As root a process of a plugin without a user of its own would own the keys.
func TestRootNeedsUsersForPlugins(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user has no others to give")
	}
	cfg, err := config.Load(config.Source{Set: []string{"dataDir=" + t.TempDir(), "plugins.uidRange="}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, Options{Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "plugins.uidRange: empty") {
		t.Errorf("a kernel without users for plugins: %v", err)
	}
}
