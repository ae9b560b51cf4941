package store

import (
	"sync"
	"time"
)

// ages tells which revision was current at a time, to the tick of compaction and since this process opened the store.
type ages struct {
	mu    sync.Mutex
	marks []age
}

type age struct {
	at       time.Time
	revision uint64
}

// maxAges bounds the marks; with the default tick it is a day.
const maxAges = 2880

func (x *ages) note(at time.Time, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.marks); n > 0 && x.marks[n-1].revision == revision {
		return // nothing was written: the first time stands
	}
	if len(x.marks) == maxAges {
		x.marks = x.marks[1:]
	}
	x.marks = append(x.marks, age{at, revision})
}

// RevisionAt is the latest revision known to have been current at a time, 0 when the store was opened later.
func (s *Store) RevisionAt(at time.Time) (revision uint64) {
	s.ages.mu.Lock()
	defer s.ages.mu.Unlock()
	for _, m := range s.ages.marks {
		if m.at.After(at) {
			break
		}
		revision = m.revision
	}
	return revision
}

// InUse says whether a process has the database in dir open, and which; 0 when that is not known.
func InUse(dir string) (pid int, used bool) {
	unlock, err := lockShared(dir)
	if err == nil {
		_ = unlock()
		return 0, false
	}
	if locked, ok := err.(*LockedError); ok {
		return locked.PID, true
	}
	return 0, false
}
