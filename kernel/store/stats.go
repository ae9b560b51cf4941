package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Stats is what the store holds and takes, as of now.
type Stats struct {
	ID string
	// Revision is the latest, Compacted the one below which there is no history.
	Revision, Compacted uint64
	// Keys have a value; Bytes is that of their latest values.
	Keys, Bytes int64
	// Queue is the number of writes that wait for a group.
	Queue int
	// Held is the revision that a backup under way keeps from compaction; 0: none.
	Held uint64
	// Levels is the number of tables a level.
	Levels []int
	Disk   DiskUse
}

// DiskUse is what the store's files take, in bytes that the file system gave them.
type DiskUse struct {
	Tables, Memtables, ValueLog, Other int64
	// Free is what the file system has left; Needed what must stay free for a write to be accepted, 0: no limit.
	Free     uint64
	Needed   uint64
	ReadOnly bool
}

// Total is the bytes of all files.
func (d DiskUse) Total() int64 { return d.Tables + d.Memtables + d.ValueLog + d.Other }

// Stats asks the index, Badger and the file system; it reads no data.
func (s *Store) Stats() (Stats, error) {
	if err := s.enter(); err != nil {
		return Stats{}, err
	}
	defer s.leave()
	st := Stats{ID: s.ID(), Revision: s.index.current(), Compacted: s.compacted.Load(), Queue: int(s.waiting.Load()), Held: s.Held()}
	st.Keys, st.Bytes = s.Size("")
	for _, l := range s.db.Levels() {
		st.Levels = append(st.Levels, l.NumTables)
	}
	for len(st.Levels) > 1 && st.Levels[len(st.Levels)-1] == 0 {
		st.Levels = st.Levels[:len(st.Levels)-1]
	}
	var err error
	if st.Disk, err = diskUse(s.cfg.Dir); err != nil {
		return st, &DiskError{Dir: s.cfg.Dir, Err: err}
	}
	if st.Disk.Free, st.Disk.ReadOnly, err = s.cfg.diskUsage(s.cfg.Dir); err != nil {
		return st, &DiskError{Dir: s.cfg.Dir, Err: err}
	}
	st.Disk.Needed = uint64(max(s.needed(), 0))
	return st, nil
}

// diskUse adds up a database's files. One that goes away meanwhile does not count.
func diskUse(dir string) (d DiskUse, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return d, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return d, err
		}
		size := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size = st.Blocks * 512 // log files are longer than what is in them
		}
		switch filepath.Ext(e.Name()) {
		case ".sst":
			d.Tables += size
		case ".mem":
			d.Memtables += size
		case ".vlog":
			d.ValueLog += size
		default:
			d.Other += size
		}
	}
	return d, nil
}

func levelName(level int) string { return strconv.Itoa(level) }

// Each calls visit with every live key, its revision and the size of its value, in order, as of one revision. It
// reads no disk.
func (s *Store) Each(visit func(key string, revision uint64, size int64)) (revision uint64) {
	tree, revision := s.index.snapshot()
	tree.Ascend(func(e entry) bool {
		visit(e.key, e.revision, e.size)
		return true
	})
	return revision
}

// Version is one state of a key that is still kept.
type Version struct {
	KV
	Type EventType
	// Oldest marks the version that was current at the compacted revision: what it did to the key is not known.
	Oldest bool
}

// History calls visit with the versions of a key that are kept, the latest first, until it returns false. A deletion
// is a version of type Deleted without a value. Error: ErrKeyNotFound when there is none.
func (s *Store) History(key string, visit func(Version) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	p := s.hold(0)
	defer s.pins.release(p)
	versions, err := s.versions(key, p.revision)
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return ErrKeyNotFound
	}
	for _, v := range versions {
		if v.Type != Deleted {
			if v.KV, err = s.written(key, v.Revision); err != nil {
				return err
			}
		}
		if !visit(v) {
			return nil
		}
		s.pins.touch(p)
	}
	return nil
}

// versions lists a key's states above a revision and the one that was current at it, the latest first, without values.
func (s *Store) versions(key string, compacted uint64) ([]Version, error) {
	txn := s.db.NewTransactionAt(s.index.current(), false)
	defer txn.Discard()
	raw, err := rawVersions(txn, dataKey(key), compacted)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	return effective(key, raw, compacted), nil
}

// DirectoryUse is what the files of a database take that this process has not open.
func DirectoryUse(cfg Config) (d DiskUse, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return d, err
	}
	if d, err = diskUse(cfg.Dir); err == nil {
		d.Free, d.ReadOnly, err = cfg.diskUsage(cfg.Dir)
	}
	if err != nil {
		return d, &DiskError{Dir: cfg.Dir, Err: err}
	}
	d.Needed = uint64(max(cfg.MinFreeBytes, 0))
	return d, nil
}
