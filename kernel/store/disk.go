package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

// diskUsage asks the file system of dir for the bytes free to this user and whether it is mounted read-only.
func diskUsage(dir string) (free uint64, readOnly bool, err error) {
	var st unix.Statfs_t
	for {
		err = unix.Statfs(dir, &st)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, false, err
	}
	return st.Bavail * uint64(st.Bsize), st.Flags&unix.ST_RDONLY != 0, nil
}

// checkDisk says whether a write may begin when needed bytes must stay free.
func (s *Store) checkDisk(needed int64) error { return checkDisk(s.cfg, needed) }

func checkDisk(cfg Config, needed int64) error {
	free, readOnly, err := cfg.diskUsage(cfg.Dir)
	switch {
	case err != nil:
		return &DiskError{Dir: cfg.Dir, Err: err}
	case readOnly:
		return &DiskError{Dir: cfg.Dir, ReadOnly: true}
	case needed > 0 && free < uint64(needed):
		return &DiskError{Dir: cfg.Dir, Free: free, Needed: uint64(needed)}
	}
	return nil
}

// checkOpenDisk: opening maps new log files and may replay old ones, which needs room for one memory table.
func checkOpenDisk(cfg Config) error {
	if cfg.MinFreeBytes < 0 {
		return checkDisk(cfg, 0)
	}
	return checkDisk(cfg, min(cfg.MemTableBytes, cfg.MinFreeBytes/4))
}

// sayRefusals logs when the disk begins to refuse writes, and when it takes them again: their clients are told each
// time, but whoever runs the kernel may not be one of them. What makes room says nothing of the room for other writes.
// Only the writer calls it.
func (s *Store) sayRefusals(err error, makesRoom bool) {
	refused := errors.As(err, new(*DiskError))
	switch {
	case refused && !s.refusing:
		s.refusing = true
		s.log.Error("writes are refused until the disk takes them again; reads go on", "error", err)
	case err == nil && s.refusing && !makesRoom:
		s.refusing = false
		s.log.Info("writes are accepted again", "data_directory", s.cfg.Dir)
	}
}
