package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A lock from beside the configuration is taken over by the data directory that has
// its bundles, once, and by no other.
func TestAdopt(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	install(t, c, bundle(t, "1.0.0"))
	former := c.cfg.LockFile
	mine := Config{Directory: c.cfg.Directory, LockFile: filepath.Join(t.TempDir(), "plugins.lock")}
	if taken, err := Adopt(mine, former); err != nil || !taken {
		t.Fatalf("%t, %v, want it taken", taken, err)
	}
	if taken, err := Adopt(mine, former); err != nil || taken {
		t.Errorf("a second time: %t, %v", taken, err)
	}
	lock, err := ReadLock(mine.LockFile)
	if err != nil || lock.Bundle("quiet") == nil {
		t.Errorf("%+v, %v", lock, err)
	}
	other := Config{Directory: t.TempDir(), LockFile: filepath.Join(t.TempDir(), "plugins.lock")}
	if taken, err := Adopt(other, former); taken || err == nil || !strings.Contains(err.Error(), "bundle quiet is not in the catalog") {
		t.Errorf("another data directory: %t, %v", taken, err)
	}
	if _, err := os.Stat(other.LockFile); err == nil {
		t.Error("a lock was made")
	}
	if taken, err := Adopt(other, filepath.Join(t.TempDir(), "absent")); taken || err != nil {
		t.Errorf("nothing beside: %t, %v", taken, err)
	}
}
