package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/secretfile"
)

// ownEntries is what the kernel and its commands keep in a data directory, and what a
// file system of its own has.
var ownEntries = []string{
	"admin.kubeconfig", "audit", "catalog", "hollow", "lost+found", "networkpolicy", "node", "node.kubeconfig", "node.lock", "pki", "plugins", "plugins.lock",
	"proxy", "run", "runtime", "store", "super-admin.kubeconfig", "FAULT", "FAULT.former",
}

// isOwn reports whether an entry of a data directory is the kernel's, or a file that
// it was writing (secretfile.Write).
func isOwn(name string) bool {
	return slices.ContainsFunc(ownEntries, func(own string) bool {
		return name == own || strings.HasPrefix(name, "."+own+".")
	})
}

// closeToOthers takes other users' rights to the folders away that hold objects and
// keys. The data directory itself is closed where nothing but the kernel's own lies in
// it: a folder of the machine that somebody named by mistake stays as it is.
func (d directories) closeToOthers(log *slog.Logger) error {
	dirs := []string{d.store, d.plugins, d.pods, filepath.Join(d.data, "pki")}
	if filepath.Dir(d.run) == d.data {
		dirs = append(dirs, d.run)
	}
	entries, err := os.ReadDir(d.data)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	foreign := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return !isOwn(e.Name()) })
	if foreign < 0 {
		dirs = append(dirs, d.data)
	} else if info, err := os.Stat(d.data); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("the data directory is open to other users and holds other things than the kernel's, so it stays so: take a folder of its own, or chmod 700 it",
			"directory", d.data, "mode", fmt.Sprintf("%04o", info.Mode().Perm()), "found", entries[foreign].Name())
	}
	for _, dir := range dirs {
		closed, err := secretfile.Close(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("data directory: %w; chmod 700 it", err)
		}
		if closed {
			log.Warn("a folder of the data directory was open to other users and is closed now", "directory", dir, "mode", "0700")
		}
	}
	return nil
}
