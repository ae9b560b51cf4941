package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// guard keeps directories of the host out of pods: keys, the store, other pods' volumes and sockets lie there.
type guard struct {
	dirs []string // without symbolic links
}

func newGuard(dirs []string) guard {
	var g guard
	for _, dir := range dirs {
		if abs, err := filepath.Abs(dir); err == nil {
			g.dirs = append(g.dirs, resolve(abs))
		}
	}
	return g
}

// resolve follows all symbolic links of a path of which the end may be missing.
func resolve(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent, name := filepath.Split(path)
	if parent = filepath.Clean(parent); parent == path {
		return path
	}
	if link, err := os.Readlink(path); err == nil { // it leads to what is not there yet
		if !filepath.IsAbs(link) {
			link = filepath.Join(resolve(parent), link)
		}
		if link != path && !strings.HasPrefix(link, path+"/") {
			return resolve(link)
		}
	}
	return filepath.Join(resolve(parent), name)
}

// check refuses a real path inside a guarded directory, and answers which directories below it, relative to it, must not
// be seen.
func (g guard) check(real string) (masks []string, err error) {
	for _, dir := range g.dirs {
		if inside(dir, real) {
			return nil, fmt.Errorf("hostPath %s is inside %s, which is the kernel's own and not given to pods", real, dir)
		}
		if inside(real, dir) {
			rel, err := filepath.Rel(real, dir)
			if err != nil {
				return nil, err
			}
			masks = append(masks, rel)
		}
	}
	return masks, nil
}

func inside(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// openPath names what a path is at this moment, links followed, without opening it for anything.
func openPath(path string) (f *os.File, real string, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f = os.NewFile(uintptr(fd), path)
	real, err = realPath(f)
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, real, nil
}

// realPath is where an open file is now.
func realPath(f *os.File) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
