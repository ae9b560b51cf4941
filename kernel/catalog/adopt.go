package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// Adopt copies a lock file from where it was to where it belongs, if nothing is there
// and the catalog has every bundle that it names in use. An error says why a lock that
// is there does not count; the start goes on without it.
func Adopt(cfg Config, former string) (taken bool, err error) {
	if _, err := os.Stat(cfg.LockFile); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	data, err := readBounded(former, maxLockBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock, err := parseLock(former, data)
	if err != nil || len(lock.Bundles) == 0 {
		return false, err
	}
	c := &Catalog{cfg: cfg}
	for i := range lock.Bundles {
		b := &lock.Bundles[i]
		if _, err := os.Stat(filepath.Join(c.folder(b.Version.Digest), manifest.File)); err != nil {
			return false, fmt.Errorf("bundle %s is not in the catalog %s", b.Name, cfg.Directory)
		}
	}
	if err := os.MkdirAll(filepath.Dir(cfg.LockFile), 0o755); err != nil {
		return false, err
	}
	return true, writeWhole(cfg.LockFile, data, 0o644)
}
