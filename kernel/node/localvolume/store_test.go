package localvolume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const name = "pvc-0a1b2c3d-0000-4000-8000-00000000beef"

func noUser() (string, error) { return "", nil }

func note() error { return nil }

func made(t *testing.T) (*Store, string) {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "volumes"))
	if err := s.Make(name, note); err != nil {
		t.Fatal(err)
	}
	return s, s.Path(name)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("data"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// What is no name of a volume leads to no directory.
func TestNames(t *testing.T) {
	s, path := made(t)
	outside := filepath.Join(filepath.Dir(s.Root()), "outside")
	write(t, filepath.Join(outside, "file"))
	for _, bad := range []string{
		"", ".", "..", "/", "../outside", "pvc-", "pvc-1", "/etc", name + "/..", name + "/../../outside", "../" + filepath.Base(s.Root()) + "/" + name,
		strings.ToUpper(name), name + "\x00", name + "\n", " " + name, removing + name, "pvc-0a1b2c3d-0000-4000-8000-00000000bee/", strings.Repeat("a", 5000),
	} {
		var refused *NameError
		if err := s.Make(bad, note); !errors.As(err, &refused) {
			t.Errorf("make %q: %v", bad, err)
		}
		if err := s.Remove(t.Context(), bad, noUser); !errors.As(err, &refused) {
			t.Errorf("remove %q: %v", bad, err)
		}
	}
	if !exists(path) || !exists(filepath.Join(outside, "file")) {
		t.Error("something was removed")
	}
	entries, err := os.ReadDir(s.Root())
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Every user of a container writes the volume, and no other user of the machine enters it.
func TestModes(t *testing.T) {
	old := unix.Umask(0o077)
	s, path := made(t)
	unix.Umask(old)
	for p, want := range map[string]fs.FileMode{s.Root(): 0o700, path: 0o777} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	// An existing volume keeps what it holds.
	write(t, filepath.Join(path, "file"))
	if err := s.Make(name, note); err != nil || !exists(filepath.Join(path, "file")) {
		t.Errorf("made again: %v", err)
	}
	fault := errors.New("disk is full")
	if err := New(filepath.Join(t.TempDir(), "v")).Make(name, func() error { return fault }); !errors.Is(err, fault) {
		t.Errorf("user not written down: %v", err)
	}
}

// A link in the place of a volume, or of the directory of all, is followed nowhere.
func TestLinkInPlace(t *testing.T) {
	s, path := made(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "file"))
	if err := errors.Join(os.Remove(path), os.Symlink(outside, path)); err != nil {
		t.Fatal(err)
	}
	if err := s.Make(name, note); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("made: %v", err)
	}
	if err := s.Remove(t.Context(), name, noUser); err == nil {
		t.Error("removed a link")
	}
	link := New(filepath.Join(t.TempDir(), "link"))
	if err := os.Symlink(outside, link.Root()); err != nil {
		t.Fatal(err)
	}
	if err := link.Make(name, note); err == nil {
		t.Error("made below a link")
	}
	if err := link.Remove(t.Context(), name, noUser); err == nil {
		t.Error("removed below a link")
	}
	if !exists(filepath.Join(outside, "file")) {
		t.Error("what the link leads to was removed")
	}
}

// What containers leave behind goes, and nothing else.
func TestRemove(t *testing.T) {
	s, path := made(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "file"))
	for _, p := range []string{"file", "a/b/c/file", "a/b2/file", ".1/.1/.1/.2/file", ".2/x", "...", "a/-rf", "a/new\nline"} {
		write(t, filepath.Join(path, p))
	}
	for link, target := range map[string]string{"l1": outside, "a/l2": "../../../outside", "a/b/loop": "../..", "abs": "/", "self": "self"} {
		if err := os.Symlink(target, filepath.Join(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(unix.Mkfifo(filepath.Join(path, "a/pipe"), 0o600), os.MkdirAll(filepath.Join(path, "closed/in"), 0o700), os.Chmod(filepath.Join(path, "closed"), 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), name, noUser); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.Root()); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	if !exists(filepath.Join(outside, "file")) {
		t.Error("a link was followed")
	}
	if err := s.Remove(t.Context(), name, noUser); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

// Directories in each other by the thousand, and many beside each other, take no more files or stack than
// few.
func TestDeepAndWide(t *testing.T) {
	s, path := made(t)
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3_000 {
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		_ = unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	_ = unix.Close(fd)
	for i := range 3 * batch {
		write(t, filepath.Join(path, "wide", string(rune('a'+i%26))+strings.Repeat("x", i/26+1), "f"))
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = min(limit.Cur, 256)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = s.Remove(t.Context(), name, noUser)
	if fault := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); fault != nil {
		t.Error(fault)
	}
	if err != nil || exists(path) {
		t.Errorf("%v", err)
	}
}

// A mount that a privileged container left in its volume is not entered.
func TestMountInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "file"))
	for _, at := range []string{"etc", "deep/er/etc"} {
		t.Run(at, func(t *testing.T) {
			s, path := made(t)
			target := filepath.Join(path, at)
			if err := os.MkdirAll(target, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(outside, target, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("bind: %v", err)
			}
			err := s.Remove(t.Context(), name, noUser)
			mounted := mountAt(t, s.Root())
			if fault := unix.Unmount(mounted, unix.MNT_DETACH); fault != nil {
				t.Fatal(fault)
			}
			if err == nil {
				t.Fatal("removed what is mounted")
			}
			if !exists(filepath.Join(outside, "file")) {
				t.Fatal("what is mounted was emptied")
			}
			if err := s.Remove(t.Context(), name, noUser); err != nil || !exists(filepath.Join(outside, "file")) {
				t.Errorf("without the mount: %v", err)
			}
		})
	}
}

func mountAt(t *testing.T, below string) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], below) {
			return f[4]
		}
	}
	t.Fatal("nothing is mounted any more")
	return ""
}

// A volume that a pod has stays; a removal that was cut off goes on, also when the volume was made anew.
func TestInUseAndInterrupted(t *testing.T) {
	s, path := made(t)
	write(t, filepath.Join(path, "a/file"))
	var used *InUseError
	if err := s.Remove(t.Context(), name, func() (string, error) { return "default/db-0", nil }); !errors.As(err, &used) || !strings.Contains(err.Error(), "in use by pod default/db-0") {
		t.Errorf("in use: %v", err)
	}
	fault := errors.New("no answer")
	if err := s.Remove(t.Context(), name, func() (string, error) { return "", fault }); !errors.Is(err, fault) {
		t.Errorf("not known who uses it: %v", err)
	}
	if !exists(filepath.Join(path, "a/file")) {
		t.Fatal("removed though in use")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Remove(over, name, noUser); !errors.Is(err, ErrGoesOn) {
		t.Errorf("cut off: %v", err)
	}
	if exists(path) {
		t.Error("half of a volume has its name")
	}
	if err := s.Make(name, note); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "new"))
	if err := s.Remove(t.Context(), name, noUser); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.Root()); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// A removal waits for another no longer than its caller does.
func TestRemoveWaitsForContext(t *testing.T) {
	s, path := made(t)
	s.work <- struct{}{} // another removal goes on
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Remove(over, name, noUser); !errors.Is(err, ErrGoesOn) {
		t.Errorf("cut off: %v", err)
	}
	if !exists(path) {
		t.Error("removed out of turn")
	}
	<-s.work
	if err := s.Remove(t.Context(), name, noUser); err != nil || exists(path) {
		t.Errorf("in its turn: %v", err)
	}
}
