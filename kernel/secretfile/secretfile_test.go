package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What lies there by somebody else's choice is not read, and what others could
// read is closed to them.
func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		put     func(t *testing.T, path string) error
		wantErr string
	}{
		{"own", func(_ *testing.T, path string) error { return os.WriteFile(path, []byte("secret"), 0o600) }, ""},
		{"open to all", func(_ *testing.T, path string) error { return os.WriteFile(path, []byte("secret"), 0o644) }, ""},
		{"absent", func(*testing.T, string) error { return nil }, "no such file"},
		{"link", func(t *testing.T, path string) error {
			elsewhere := filepath.Join(t.TempDir(), "x")
			return errors.Join(os.WriteFile(elsewhere, []byte("secret"), 0o600), os.Symlink(elsewhere, path))
		}, "is a symbolic link"},
		{"pipe", func(_ *testing.T, path string) error { return unix.Mkfifo(path, 0o600) }, "is not a file"},
		{"directory", func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, "is not a file"},
		{"large", func(_ *testing.T, path string) error { return os.WriteFile(path, make([]byte, MaxSize+1), 0o600) }, "larger than"},
		{"of another user", func(t *testing.T, path string) error {
			if os.Geteuid() != 0 {
				t.Skip("gives a file to another user: needs root")
			}
			return errors.Join(os.WriteFile(path, []byte("secret"), 0o600), os.Chown(path, 60705, 0))
		}, "belongs to user 60705"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := tt.put(t, path); err != nil {
				t.Fatal(err)
			}
			got, err := Read(path)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("read %q, %v; want error %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil || string(got) != "secret" {
				t.Fatalf("read %q, %v", got, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// A failed write leaves the former file, and no temporary one.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Write(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "taken", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "taken"), []byte("two"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "absent", "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := Write(filepath.Join(dir, "absent", "f"), nil, 0o600); err == nil || !strings.Contains(err.Error(), "absent/f") {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			unlock, err := Lock(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d at the same time", n)
			}
			runtime.Gosched()
			inside.Add(-1)
		})
	}
	wg.Wait()
}

func TestClose(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o700: false, 0o755: true, 0o750: true, 0o711: true} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		if closed, err := Close(dir); closed != want || err != nil {
			t.Errorf("%o: closed %v, %v", mode, closed, err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%o: became %v, %v", mode, info.Mode(), err)
		}
	}
}

// What root writes for a kernel of another user is that user's.
func TestRootWritesForTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("writes for another user: needs root")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 60705, 60706); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := errors.Join(Write(filepath.Join(dir, "f"), nil, 0o600), MakeDirectory(filepath.Join(dir, "d"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "d", ".lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 60705 || st.Gid != 60706 {
			t.Errorf("%s is of %d:%d", name, st.Uid, st.Gid)
		}
	}
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	if Held(dir) {
		t.Error("nobody holds it")
	}
	one, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	one()
	if !Held(dir) {
		t.Error("the second holds it")
	}
	if two(); Held(dir) {
		t.Error("nobody holds it any more")
	}
}
