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
	// number is that of the current log, whose blocks are allocated; Store.writing guards it.
	number int
	bytes  int64
	// compaction is what a compaction of the first two levels would write before it frees as much.
	compaction atomic.Int64
	// logged bounds what the current log has taken of its blocks; whole says that it has them all.
	logged atomic.Int64
	whole  atomic.Bool
	// spareBytes is the size of the file SpareFile when it is there, which spare says.
	spareBytes int64
	spare      atomic.Bool
	// released is set from when that room was given out until it is laid aside again: other writes do not get it.
	released atomic.Bool
}

// SpareFile is a file, in a data directory, without content: its room is given out when others have filled the disk, for
// deletes and for what gives their room back. It is laid when there is room for it.
const SpareFile = "SPARE"

// entryBytes is what an entry takes of a log and of a memory table beside its key and value, at the most.
const entryBytes = 192

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
	// The next log, and the table that is made of the current one.
	r.spareBytes = min(2*r.bytes, cfg.MinFreeBytes/8*5)
	if _, err := os.Stat(filepath.Join(r.dir, SpareFile)); err == nil {
		r.spare.Store(true)
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
		var st unix.Stat_t
		whole := err == nil && unix.Fstat(int(f.Fd()), &st) == nil && st.Blocks*512 >= r.bytes
		if err = errors.Join(err, f.Close()); err != nil {
			return changed, err
		}
		r.number++
		r.logged.Store(0)
		r.whole.Store(whole)
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

// lay makes the spare file.
func (r *reserve) lay() error {
	if r.spareBytes <= 0 || r.spare.Load() {
		return nil
	}
	path := filepath.Join(r.dir, SpareFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(allocate(f, r.spareBytes), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	r.spare.Store(true)
	r.released.Store(false)
	return nil
}

// release gives the spare file's room out.
func (r *reserve) release() error {
	if !r.spare.Swap(false) {
		return nil
	}
	r.released.Store(true)
	if err := os.Remove(filepath.Join(r.dir, SpareFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// room is what a group needs of the disk.
type room int

const (
	roomForWrites room = iota
	// roomForSteps is for the writes that lead to a delete: they have half the reserve.
	roomForSteps
	// roomForDeletes is for deletes and compaction: they have all of it, and the blocks of the current log.
	roomForDeletes
)

// reserveRoom sees to the room that the next group needs, which takes so many bytes of the log. s.writing is held.
func (s *Store) reserveRoom(of room, bytes int64) error {
	if s.cfg.MinFreeBytes < 0 {
		return nil
	}
	needed := s.needed()
	if of != roomForWrites {
		needed = s.cfg.MinFreeBytes / 2
	}
	if err := s.checkDisk(needed); err != nil {
		if of != roomForDeletes || !isShort(err) {
			return err
		}
		if err := s.lastRoom(bytes); err != nil {
			return err
		}
	}
	changed, err := s.reserve.ahead()
	if err != nil {
		return &DiskError{Dir: s.cfg.Dir, Err: fmt.Errorf("reserving room for the log: %w", err)}
	}
	if changed {
		s.reserve.compaction.Store(s.compactionBytes())
	}
	return nil
}

// lastRoom finds room for bytes of the log when the disk is as good as full.
func (s *Store) lastRoom(bytes int64) error {
	r := &s.reserve
	// A log's end is left to what the store notes for itself.
	if r.whole.Load() && r.logged.Load()+bytes < s.cfg.MemTableBytes/4*3 {
		return nil
	}
	if s.checkDisk(2*r.bytes) == nil {
		return nil
	}
	if err := r.release(); err != nil {
		return &DiskError{Dir: s.cfg.Dir, Err: err}
	}
	return s.checkDisk(2 * r.bytes)
}

// isShort says whether an error is a refusal for want of room.
func isShort(err error) bool {
	var full *DiskError
	return errors.As(err, &full) && full.Err == nil && !full.ReadOnly
}

// needed is the free disk space below which writes are refused, negative when it is not watched.
func (s *Store) needed() int64 {
	if s.cfg.MinFreeBytes < 0 {
		return -1
	}
	needed := s.cfg.MinFreeBytes + s.reserve.compaction.Load()
	if s.reserve.released.Load() {
		needed += s.reserve.spareBytes
	}
	return needed
}
