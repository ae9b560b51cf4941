package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is one file of an object-backed volume.
type File struct {
	Data []byte
	Mode fs.FileMode
	UID  *int64 // owner, when it is not root (a token for a pod that runs as another user)
}

const (
	dataLink = "..data"
	dataNew  = "..data_tmp"
)

// writeAtomic makes dir show exactly files (path below dir → file): they are written to a new timestamped directory,
// ..data is switched to it in one rename, and each top-level name is a symlink into ..data. Unchanged content is left
// alone. own is called with the new directory before the switch (group ownership). It tells whether anything changed.
func writeAtomic(dir string, files map[string]File, own func(dir string) error) (changed bool, err error) {
	for p := range files {
		if err := validPath(p); err != nil {
			return false, err
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read volume %s: %w", dir, err)
	}
	if old != "" && sameContent(filepath.Join(dir, old), files) {
		return false, nil
	}
	next, err := os.MkdirTemp(dir, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return false, fmt.Errorf("write volume %s: %w", dir, err)
	}
	fail := func(err error) (bool, error) {
		_ = os.RemoveAll(next)
		return false, fmt.Errorf("write volume %s: %w", dir, err)
	}
	// Other users of the container must get through; what they may read is decided by the files.
	if err := os.Chmod(next, 0o755); err != nil {
		return fail(err)
	}
	for p, f := range files {
		full := filepath.Join(next, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return fail(err)
		}
		if err := os.WriteFile(full, f.Data, 0o600); err != nil {
			return fail(err)
		}
		if err := os.Chmod(full, f.Mode); err != nil {
			return fail(err)
		}
		if f.UID != nil {
			if err := os.Chown(full, int(*f.UID), -1); err != nil {
				return fail(err)
			}
		}
	}
	if own != nil {
		if err := own(next); err != nil {
			return fail(err)
		}
	}
	tmp := filepath.Join(dir, dataNew)
	_ = os.Remove(tmp)
	if err := os.Symlink(filepath.Base(next), tmp); err != nil {
		return fail(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return fail(err)
	}
	tops := map[string]bool{}
	for p := range files {
		top, _, _ := strings.Cut(p, "/")
		tops[top] = true
	}
	for top := range tops {
		link := filepath.Join(dir, top)
		if _, err := os.Readlink(link); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join(dataLink, top), link); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, fmt.Errorf("write volume %s: %w", dir, err)
		}
	}
	// Names that are gone, and earlier generations.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("write volume %s: %w", dir, err)
	}
	for _, e := range entries {
		name := e.Name()
		stale := !tops[name]
		if strings.HasPrefix(name, "..") {
			stale = name != dataLink && name != filepath.Base(next)
		}
		if stale {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return false, fmt.Errorf("write volume %s: %w", dir, err)
			}
		}
	}
	return true, nil
}

// validPath refuses paths that leave the volume or collide with its own names.
func validPath(p string) error {
	switch {
	case p == "" || filepath.IsAbs(p):
		return fmt.Errorf("invalid path: must not be empty or absolute: %q", p)
	case len(p) > 4096:
		return fmt.Errorf("invalid path: must be less than or equal to 4096 characters")
	case slices.Contains(strings.Split(p, "/"), ".."):
		return fmt.Errorf("invalid path: must not contain '..': %s", p)
	case strings.HasPrefix(p, ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", p)
	}
	for _, part := range strings.Split(p, "/") {
		if len(part) > 255 {
			return fmt.Errorf("invalid path: filenames must be less than or equal to 255 characters")
		}
	}
	return nil
}

func sameContent(dir string, files map[string]File) bool {
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, ok := files[rel]
		if !ok {
			return fs.SkipAll
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, f.Data) {
			return fs.SkipAll
		}
		seen++
		return nil
	})
	return err == nil && seen == len(files) && countFiles(dir) == len(files)
}

func countFiles(dir string) int {
	n := 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}
