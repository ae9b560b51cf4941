package pki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Keys that others could read are closed to them at a start, and what lies in
// their place by somebody else's choice is not used.
func TestKeysAreTheOwners(t *testing.T) {
	move := func(t *testing.T, dir, name string) {
		t.Helper()
		elsewhere := filepath.Join(t.TempDir(), name)
		if err := os.Rename(filepath.Join(dir, name), elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(t *testing.T, dir string) error
		wantErr string
	}{
		{"keys for all", func(_ *testing.T, dir string) error {
			for _, f := range []string{"ca.key", "sa.key", "admin.key"} {
				if err := os.Chmod(filepath.Join(dir, f), 0o644); err != nil {
					return err
				}
			}
			return os.Chmod(dir, 0o755)
		}, ""},
		{"CA key by a link", func(t *testing.T, dir string) error { move(t, dir, "ca.key"); return nil }, "ca.key: is a symbolic link"},
		{"token key by a link", func(t *testing.T, dir string) error { move(t, dir, "sa.key"); return nil }, "sa.key: is a symbolic link"},
		{"key of a certificate by a link", func(t *testing.T, dir string) error { move(t, dir, "admin.key"); return nil }, ""},
		{"pipe", func(_ *testing.T, dir string) error {
			file := filepath.Join(dir, "sa.key")
			if err := os.Remove(file); err != nil {
				return err
			}
			return unix.Mkfifo(file, 0o600)
		}, "sa.key: is not a file"},
		{"key of another user", func(t *testing.T, dir string) error {
			if os.Geteuid() != 0 {
				t.Skip("gives a file to another user: needs root")
			}
			return os.Chown(filepath.Join(dir, "ca.key"), 60705, 0)
		}, "ca.key: belongs to user 60705"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			open(t, Config{Dir: dir})
			if err := tt.change(t, dir); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Config{Dir: dir})
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("directory: %v %v", info.Mode(), err)
			}
			for _, f := range []string{"ca.key", "sa.key", "admin.key"} {
				if info, err := os.Lstat(filepath.Join(dir, f)); err != nil || info.Mode() != 0o600 {
					t.Errorf("%s: %v %v", f, info.Mode(), err)
				}
			}
		})
	}
}
