package plugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// moduleCache is where the compiled module of a bundle is. What is mapped from there
// is executed in this process and is compared with no digest, so that only this
// user, or root, may be able to change it: beside the bundle, if that is so, or
// else in the host's own folder. "" is nowhere: it is compiled in memory.
func moduleCache(bundle, own string) string {
	beside := filepath.Join(bundle, compiledDirectory)
	// wazero writes what its cache lacks, and fails where it may not.
	if unix.Access(beside, unix.R_OK|unix.W_OK|unix.X_OK) == nil && keptFromOthers(beside, true) {
		return beside
	}
	// Where the host's own lies are the cluster's keys too.
	if own != "" && os.MkdirAll(own, 0o700) == nil && keptFromOthers(own, false) && os.Chmod(own, 0o700) == nil {
		return own
	}
	return ""
}

// keptFromOthers reports whether only this user and root can change what is in a
// folder; with parents, that only they can put another folder in its place.
func keptFromOthers(dir string, parents bool) bool {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	err = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && (!mine(info) || !info.IsDir() && !info.Mode().IsRegular()) {
			err = fs.ErrPermission
		}
		return err
	})
	for parent := path; parents && err == nil && parent != filepath.Dir(parent); {
		parent = filepath.Dir(parent)
		var info fs.FileInfo
		if info, err = os.Lstat(parent); err == nil && !mine(info) {
			return false
		}
	}
	return err == nil
}

// mine reports whether a file is this user's or root's, and nobody else may write
// to it. A sticky folder, as /tmp, keeps what others put there apart.
func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) &&
		(info.Mode().Perm()&0o022 == 0 || info.IsDir() && info.Mode()&fs.ModeSticky != 0)
}
