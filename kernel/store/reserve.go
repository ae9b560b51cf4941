package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// reserve is the room on disk that must be there before it is needed, because Badger writes through memory maps and a
// page for which there is no room ends the process.
type reserve struct {
	dir string
	// number is that of the current log, whose blocks are allocated; used by the writer only.
	number int
	bytes  int64
	// compaction is what a compaction of the first two levels would write before it frees as much.
	compaction atomic.Int64
}

func (r *reserve) path(number int) string {
	return filepath.Join(r.dir, fmt.Sprintf("%05d.mem", number))
}

// open finds the current log.
func (r *reserve) open(cfg Config) error {
	r.dir = cfg.Dir
	// A log is full at the size of a memory table, and takes one more group, at most 15 % of it.
	r.bytes = cfg.MemTableBytes + cfg.MemTableBytes/4
	logs, err := filepath.Glob(filepath.Join(cfg.Dir, "*.mem"))
	if err != nil {
		return err
	}
	r.number = -1
	for _, path := range logs {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.mem", &n); err == nil {
			r.number = max(r.number, n-1)
		}
	}
	return nil
}

// ahead allocates the blocks of a log that has been begun. changed says that there is one.
func (r *reserve) ahead() (changed bool, err error) {
	for {
		f, err := os.OpenFile(r.path(r.number+1), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			return changed, nil
		}
		if err != nil {
			return changed, err
		}
		err = allocate(f, r.bytes)
		if err = errors.Join(err, f.Close()); err != nil {
			return changed, err
		}
		r.number++
		changed = true
	}
}

// allocate gives the first bytes of a file their blocks. File systems that cannot are left to the watch over free space.
func allocate(f *os.File, bytes int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			return nil
		}
		return err
	}
}

// reserveRoom sees to the room that the next group needs.
func (s *Store) reserveRoom(deletes bool) error {
	if s.cfg.MinFreeBytes < 0 {
		return nil
	}
	needed := s.needed()
	if deletes {
		needed = s.cfg.MinFreeBytes / 2
	}
	if err := s.checkDisk(needed); err != nil {
		return err
	}
	changed, err := s.reserve.ahead()
	if err != nil {
		return &DiskError{Dir: s.cfg.Dir, Err: fmt.Errorf("reserving room for the log: %w", err)}
	}
	if changed {
		var bytes int64
		for _, l := range s.db.Levels() {
			if l.Level == 0 || l.IsBaseLevel {
				bytes += l.Size
			}
		}
		s.reserve.compaction.Store(bytes)
	}
	return nil
}

// needed is the free disk space below which writes are refused, negative when it is not watched.
func (s *Store) needed() int64 {
	if s.cfg.MinFreeBytes < 0 {
		return -1
	}
	return s.cfg.MinFreeBytes + s.reserve.compaction.Load()
}
