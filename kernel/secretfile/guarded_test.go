package secretfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that decides who may come in is read where others may read it, and not where
// they may write it or where it has no bound.
func TestReadGuarded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		name string
		size int
		mode os.FileMode
		want string
	}{
		{"others read", 3, 0o644, ""},
		{"the largest", MaxSize, 0o600, ""},
		{"too large", MaxSize + 1, 0o600, "it has 1048577 bytes; at most 1048576 are read"},
		{"others write", 3, 0o606, "everybody may write it (mode 0606)"},
	} {
		if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		data, err := ReadGuarded(path)
		switch {
		case c.want == "" && (err != nil || len(data) != c.size):
			t.Errorf("%s: %d bytes, %v", c.name, len(data), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	if err := os.Chown(path, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadGuarded(path); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("another user's: %v", err)
	}
}
