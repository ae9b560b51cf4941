package localstorage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(sub, "a")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	for path, least := range map[string]int64{dir: 1 << 20, file: 1 << 20, filepath.Join(dir, "none"): 0} {
		if n, err := Usage(t.Context(), path); err != nil || n < least || n > least+64<<10 {
			t.Errorf("%s: %d bytes (%v), want %d", path, n, err, least)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Usage(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a measurement that was given up: %v", err)
	}
}

func TestUpper(t *testing.T) {
	const overlay = "700 600 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/data/snapshots/7/fs,workdir=/data/snapshots/7/work\n"
	for _, c := range []struct{ mountinfo, want string }{
		{overlay + "701 700 0:51 / /proc rw - proc proc rw\n", "/data/snapshots/7/fs"},
		{"700 600 0:50 / /mnt rw - overlay overlay rw,upperdir=/elsewhere\n", ""},
		{"700 600 8:1 / / rw - ext4 /dev/sda1 rw\n", ""},
		{"700 600 0:50 / / rw - overlay overlay rw,lowerdir=/l1,upperdir=relative\n", ""},
		{"nonsense\n - \n", ""},
		{"", ""},
	} {
		if got := upper(c.mountinfo); got != c.want {
			t.Errorf("%q: %q, want %q", c.mountinfo, got, c.want)
		}
	}
}
