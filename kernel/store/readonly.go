package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// readingSuffix names the directories of OpenReading, beside the one that is read.
const readingSuffix = ".reading-"

// OpenReading opens the database in cfg.Dir for reading without changing anything in it, also after a crash: Badger
// gets a directory of its own with links to the tables and copies of the logs, which is removed by close. No kernel
// can have the directory meanwhile. The store must not Run. Errors: *LockedError, or as Open's.
func OpenReading(cfg Config) (s *Store, closeStore func() error, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, nil, err
	}
	dir := filepath.Clean(cfg.Dir)
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST")); err != nil {
		return nil, nil, fmt.Errorf("%s holds no database: name the data directory of a kernel with --data: %w", dir, err)
	}
	unlock, err := lockShared(dir)
	if err != nil {
		return nil, nil, err
	}
	undo := []func() error{unlock}
	clear := func() error {
		var errs []error
		for i := len(undo) - 1; i >= 0; i-- {
			errs = append(errs, undo[i]())
		}
		return errors.Join(errs...)
	}
	removeAbandoned(dir)
	scratch, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+readingSuffix)
	if err != nil {
		// A directory that cannot be written can be read all the same.
		scratch, err = os.MkdirTemp("", "pintle"+readingSuffix)
	}
	if err != nil {
		return nil, nil, errors.Join(err, clear())
	}
	undo = append(undo, func() error { return os.RemoveAll(scratch) })
	release, err := takeScratch(scratch)
	if err != nil {
		return nil, nil, errors.Join(err, clear())
	}
	undo = append(undo, func() error { release(); return nil })
	if err := shadow(dir, scratch); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading %s: %w", dir, err), clear())
	}
	cfg.Dir, cfg.MinFreeBytes = scratch, -1
	tune := cfg.tune
	cfg.tune = func(o badger.Options) badger.Options {
		// What compaction replaces Badger empties before it removes it, and the tables here are links to the originals.
		return tune(o).WithNumCompactors(0).WithNumLevelZeroTablesStall(1 << 20)
	}
	if s, err = Open(cfg); err != nil {
		err = forOriginal(err, scratch, dir)
		return nil, nil, errors.Join(err, clear())
	}
	undo = append(undo, s.Close)
	return s, clear, nil
}

// forOriginal lets an error name the directory that it is about.
func forOriginal(err error, scratch, dir string) error {
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.Dir == scratch {
		out := *corrupt
		out.Dir = dir
		return &out
	}
	return err
}

// lockShared keeps kernels from a directory while it is read; several may read.
func lockShared(dir string) (unlock func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &LockedError{Dir: dir, PID: lockHolder(dir)}
	}
	return f.Close, nil
}

// removeAbandoned removes what killed readers left. One that has just been made may have no lock yet.
func removeAbandoned(dir string) {
	left, err := filepath.Glob(dir + readingSuffix + "*")
	if err != nil {
		return
	}
	for _, path := range left {
		if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if release, err := takeScratch(path); err == nil {
			_ = os.RemoveAll(path)
			release()
		}
	}
}

// shadow links the tables, which Badger never changes without compaction, and copies the rest.
func shadow(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		source, target := filepath.Join(from, name), filepath.Join(to, name)
		switch {
		case !e.Type().IsRegular() || name == "LOCK":
			continue
		case filepath.Ext(name) == ".sst":
			if os.Link(source, target) == nil {
				continue
			}
		case filepath.Ext(name) == ".mem", filepath.Ext(name) == ".vlog", name == discardFile:
		case strings.HasPrefix(name, "MANIFEST"), strings.HasSuffix(name, "KEYREGISTRY"):
		default:
			continue
		}
		if err := duplicate(source, target); err != nil {
			return err
		}
	}
	return nil
}

func duplicate(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
