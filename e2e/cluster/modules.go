package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Where a data directory has its key for compiled modules, and these.
var (
	modulesKey   = filepath.Join("pki", "modules.key")
	modulesCache = filepath.Join("plugins", "cache")
)

// compiledBefore gives a new data directory the modules that earlier clusters
// compiled, and their key: a test is not about the compiler.
func (c *Cluster) compiledBefore() error {
	kept := c.keptModules()
	if c.Cold || exists(filepath.Join(c.Data, modulesKey)) || !exists(filepath.Join(kept, modulesKey)) {
		return nil
	}
	for _, dir := range []string{filepath.Dir(modulesKey), modulesCache} {
		if err := os.MkdirAll(filepath.Join(c.Data, dir), 0o700); err != nil {
			return err
		}
	}
	return shareModules(kept, c.Data)
}

// keepCompiled keeps what the cluster compiled for later ones.
func (c *Cluster) keepCompiled() error {
	kept := c.keptModules()
	if !exists(filepath.Join(c.Data, modulesKey)) {
		return nil
	}
	for _, dir := range []string{filepath.Dir(modulesKey), modulesCache} {
		if err := os.MkdirAll(filepath.Join(kept, dir), 0o700); err != nil {
			return err
		}
	}
	return shareModules(c.Data, kept)
}

func (c *Cluster) keptModules() string { return filepath.Join(c.repo, "build", "modules") }

// leastRoom is the room of a file system that modules are copied to: many times what they take.
const leastRoom = 2 << 30

// shareModules links key and modules into another data directory, which has that
// key or none.
func shareModules(from, to string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(to, &disk); err != nil {
		return err
	}
	if disk.Bavail*uint64(disk.Bsize) < leastRoom {
		return nil // a small file system, which some test shall fill
	}
	if err := link(filepath.Join(from, modulesKey), filepath.Join(to, modulesKey)); err != nil {
		return err
	}
	mine, err := os.ReadFile(filepath.Join(from, modulesKey))
	if err != nil {
		return err
	}
	if theirs, err := os.ReadFile(filepath.Join(to, modulesKey)); err != nil || string(theirs) != string(mine) {
		return err // whose modules are worth nothing there
	}
	modules, err := filepath.Glob(filepath.Join(from, modulesCache, "*.module"))
	for _, m := range modules {
		err = errors.Join(err, link(m, filepath.Join(to, modulesCache, filepath.Base(m))))
	}
	return err
}

// link links or copies a file, unless there is one or it has gone.
func link(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data, err := os.ReadFile(from) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
