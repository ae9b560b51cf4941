package volume

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const group = 4242

// grouped is a pod with an fsGroup and a volume of the node's store, which is made, and what the manager logs.
func grouped(t *testing.T) (m *Manager, p *corev1.Pod, path string, log *bytes.Buffer) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	m, p, known := claiming(t, localPV())
	path, log = m.local.Path(localName), &bytes.Buffer{}
	known.volumes[localName].Spec.Local.Path = path
	m.deps.Logger = slog.New(slog.NewTextHandler(log, nil))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](group)}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return m, p, path, log
}

func has(t *testing.T, path string, gid, mode uint32) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Gid != gid || st.Mode&0o7777 != mode {
		t.Errorf("%s: group %d, mode %o, want %d, %o, %v", path, st.Gid, st.Mode&0o7777, gid, mode, err)
	}
}

func anywhere(string) error { return nil }

// A volume in use keeps the modes that containers chose when the agent starts again.
func TestGroupOnceInAPodsLife(t *testing.T) {
	m, p, path, _ := grouped(t)
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(path, "key")
	if err := errors.Join(os.WriteFile(key, nil, 0o600), os.Chown(key, 0, 7)); err != nil {
		t.Fatal(err)
	}
	again := New(m.root, m.deps)
	if err := again.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	has(t, key, 7, 0o600)
	if err := again.Unmount(p.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(m.PodDir(p.UID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	// For the next pod it is given anew, and again after a walk that was cut off.
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := again.Mount(over, p); err == nil || !strings.Contains(err.Error(), "applyFSGroup failed for vol "+localName) {
		t.Errorf("cut off: %v", err)
	}
	has(t, key, 7, 0o600)
	if err := again.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	has(t, key, group, 0o660)
}

// A volume that a pod has is not given to its group again by the first that mounts it after a restart, and is when
// none has it.
func TestGroupAfterARestart(t *testing.T) {
	m, first, path, _ := grouped(t)
	second := first.DeepCopy()
	second.UID, second.Name = "second", "second"
	if err := errors.Join(m.Mount(t.Context(), first), m.Mount(t.Context(), second)); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(path, "key")
	if err := errors.Join(os.WriteFile(key, nil, 0o600), os.Chown(key, 0, 7)); err != nil {
		t.Fatal(err)
	}
	third := first.DeepCopy()
	third.UID, third.Name = "third", "third"
	third.Spec.SecurityContext.FSGroup = ptr.To[int64](group + 1)
	again := New(m.root, m.deps)
	for _, p := range []*corev1.Pod{third, second, first} {
		if err := again.Mount(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	has(t, key, 7, 0o600)
	for _, p := range []*corev1.Pod{first, second, third} {
		if err := again.Unmount(p.UID); err != nil {
			t.Fatal(err)
		}
	}
	last := New(m.root, m.deps)
	if err := last.Mount(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	has(t, key, group+1, 0o660)
}

// The directory that was looked at is the one that is given: a pod beside it that exchanges names leads the group
// neither to the kernel's keys nor to a directory that holds them.
func TestGroupNeverGetsTheKernelsFiles(t *testing.T) {
	m, _, _, _ := grouped(t)
	data, beside := kernelDir(t, m)
	key := filepath.Join(data, "pki", "ca.key")
	mine := filepath.Join(beside, "mine")
	exchange := func(to string) {
		t.Helper()
		if err := os.RemoveAll(mine); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, mine); err != nil {
			t.Fatal(err)
		}
	}
	for to, want := range map[string]string{data: "is inside", filepath.Join(data, "pki"): "is inside", filepath.Dir(data): "holds the kernel's own directories"} {
		exchange(to)
		if _, err := giveTree(t.Context(), mine, group, false, m.givable); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
	// The exchange after the question.
	if err := errors.Join(os.Remove(mine), os.Mkdir(mine, 0o755), os.WriteFile(filepath.Join(mine, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := giveTree(t.Context(), mine, group, false, func(real string) error {
		if err := os.Rename(mine, mine+"-away"); err != nil {
			t.Fatal(err)
		}
		exchange(filepath.Join(data, "pki"))
		return m.givable(real)
	}); err != nil {
		t.Error(err)
	}
	has(t, filepath.Join(mine+"-away", "file"), group, 0o660)
	has(t, key, 0, 0o600)
	for _, dir := range []string{filepath.Dir(key), data, filepath.Dir(data)} {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil || st.Gid != 0 {
			t.Errorf("%s: group %d, %v", dir, st.Gid, err)
		}
	}
}

// A claim's local path that holds the kernel's directory is given to no group.
func TestGroupOfPathAboveTheKernel(t *testing.T) {
	m, p, _, _ := grouped(t)
	data, _ := kernelDir(t, m)
	m.deps.Claims.(*bindings).volumes[localName].Spec.Local.Path = filepath.Dir(data)
	if err := m.Mount(t.Context(), p); err == nil || !strings.Contains(err.Error(), "holds the kernel's own directories") {
		t.Errorf("mounted: %v", err)
	}
	has(t, filepath.Join(data, "pki", "ca.key"), 0, 0o600)
}

// A file system that refuses the change has the volume mounted all the same, with one warning.
func TestGroupRefused(t *testing.T) {
	m, p, path, log := grouped(t)
	file := filepath.Join(path, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	defer unix.Unmount(path, unix.MNT_DETACH)
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := m.Mount(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	has(t, file, 0, 0o600)
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, path) || !strings.Contains(got, "read-only file system") || !strings.Contains(got, "files=2") {
		t.Errorf("logged %q", got)
	}
}

// A file that may not be changed keeps its group, and those beside it get theirs.
func TestGroupOfImmutableFile(t *testing.T) {
	m, p, path, log := grouped(t)
	fixed := filepath.Join(path, "fixed")
	for _, name := range []string{"a", "fixed", "z"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(fixed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skipf("no file can be immutable here: %v", err)
	}
	defer func() {
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	has(t, fixed, 0, 0o600)
	has(t, filepath.Join(path, "a"), group, 0o660)
	has(t, filepath.Join(path, "z"), group, 0o660)
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "fixed") {
		t.Errorf("logged %q", got)
	}
}

// OnRootMismatch looks for all bits that the group needs, also those to enter the directory.
func TestGroupOnRootMismatch(t *testing.T) {
	for mode, changed := range map[uint32]bool{0o2770: false, 0o2777: false, 0o2760: true, 0o770: true, 0o2750: true} {
		_, _, path, _ := grouped(t)
		file := filepath.Join(path, "file")
		if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Chown(path, 0, group), unix.Chmod(path, mode), unix.Chown(file, 0, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := giveTree(t.Context(), path, group, true, anywhere); err != nil {
			t.Fatal(err)
		}
		if changed {
			has(t, file, group, 0o660)
			has(t, path, group, mode|0o2770)
		} else {
			has(t, file, 0, 0o600)
			has(t, path, group, mode)
		}
	}
}

// Directories in each other cost no open files, and those deeper than a path is long are left over.
func TestGroupOfDeepDirectories(t *testing.T) {
	m, p, path, log := grouped(t)
	deep := filepath.Join(path, strings.Repeat("d/", 700))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 250)
	at, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	for range 20 {
		if err == nil {
			err = unix.Mkdirat(at, name, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		next, nerr := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		_ = unix.Close(at)
		at, err = next, nerr
	}
	_ = unix.Close(at)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = m.Mount(t.Context(), p)
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	has(t, deep, group, 0o2770)
	has(t, filepath.Join(path, name), group, 0o2770)
	has(t, path, group, 0o2770)
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "too deep") || !strings.Contains(got, "files=1") {
		t.Errorf("logged %q", got)
	}
}

// More directories than may wait are read at once; more than may be open are left over, and end nothing.
func TestGroupOfManyDirectories(t *testing.T) {
	for _, c := range []struct{ pending, open, left int }{{0, 4, 0}, {1, 3, 0}, {100, 1, 0}, {0, 2, 9}, {0, 1, 3}} {
		_, _, path, _ := grouped(t)
		var files []string
		for _, a := range []string{"1", "2", "3"} {
			for _, b := range []string{"1", "2", "3"} {
				file := filepath.Join(path, a, b, "file")
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
		}
		root, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		given := tree{root: int(root.Fd()), gid: group, maxPending: c.pending, maxOpen: c.open}
		err = errors.Join(given.giveAll(t.Context()), root.Close())
		if err != nil || given.left.count != c.left {
			t.Errorf("%+v: %d left over, %v, %v", c, given.left.count, given.left.first, err)
		}
		if c.left == 0 {
			for _, file := range files {
				has(t, file, group, 0o660)
			}
		}
	}
}
