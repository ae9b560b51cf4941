package process

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestFolders: a run removes what killed runs left, and nothing of one that lives, of
// another program, or behind a link.
func TestFolders(t *testing.T) {
	parent, aside := t.TempDir(), t.TempDir()
	live, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	left, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(aside, filepath.Join(left.path, "link")); err != nil {
		t.Fatal(err)
	}
	if err := left.lock.Close(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	kept := []string{live.path, filepath.Join(aside, "file"), filepath.Join(parent, "pth-5"), filepath.Join(parent, "pth-6")}
	for _, name := range []string{"pth-", "pth-x", "pth-1x", "other-1"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, filepath.Join(parent, name))
	}
	if err := os.Symlink(aside, filepath.Join(parent, "pth-5")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(aside, "file"), filepath.Join(parent, "pth-6")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(parent, "pth-7")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, foreign)
	}
	if err := removeLeft(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left.path); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", left.path, err)
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if err := live.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(live.path); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", live.path, err)
	}
}

// TestFoldersAtOnce: runs that begin together do not remove each other's folders.
func TestFoldersAtOnce(t *testing.T) {
	parent := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := removeLeft(parent); err != nil {
					t.Error(err)
				}
				f, err := newFolder(parent)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.Mkdir(filepath.Join(f.path, "d"), 0o700); err != nil {
					t.Error(err)
				}
				if err := f.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
