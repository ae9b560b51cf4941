package plugin

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// stats counts the calls of one plugin. The scheduling cycle writes, the
// status writer reads; a record costs three atomic additions.
type stats struct {
	calls    atomic.Int64
	failures atomic.Int64
	buckets  [64 * 4]atomic.Uint32
	circuit  breaker

	mu     sync.Mutex
	last   string // what the last failure was, if that did not end the guest
	logged time.Time
}

// logEvery bounds the log lines about one plugin's failures.
const logEvery = 10 * time.Second

// failed notes why a call failed, and reports whether to log it.
func (s *stats) failed(err error, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := s.last == err.Error()
	s.last = err.Error()
	if same && now.Sub(s.logged) < logEvery {
		return false
	}
	s.logged = now
	return true
}

// failure is why the last call that failed did.
func (s *stats) failure() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// record counts one call.
func (s *stats) record(d time.Duration, err error) {
	s.calls.Add(1)
	if err != nil {
		s.failures.Add(1)
	}
	s.buckets[bucketOf(uint64(max(d, 1)))].Add(1)
}

// bucketOf is four buckets an octave: within 19 % of the truth.
func bucketOf(ns uint64) int {
	top := bits.Len64(ns) - 1
	if top < 2 {
		return top * 4
	}
	return top*4 + int(ns>>(top-2)&3)
}

// p99 is the upper edge of the bucket below which 99 of 100 recent calls lie;
// 0 before the first. It halves the counts when there are many, so that old
// calls fade.
func (s *stats) p99() time.Duration {
	var counts [len(s.buckets)]uint32
	var total uint64
	for i := range s.buckets {
		counts[i] = s.buckets[i].Load()
		total += uint64(counts[i])
	}
	if total == 0 {
		return 0
	}
	var seen uint64
	found := time.Duration(0)
	for i, n := range counts {
		if seen += uint64(n); seen*100 >= total*99 {
			top, part := i/4, i%4
			found = time.Duration((uint64(1)<<top)/4*uint64(5+part) + 1)
			break
		}
	}
	if total > 100_000 {
		for i, n := range counts {
			s.buckets[i].Add(-(n / 2))
		}
	}
	return found
}

// measure notes what memory the guest uses, unless it is being called.
func (u *unit) measure() {
	if !u.mu.TryLock() {
		return
	}
	var bytes int64
	switch g := u.guest.(type) {
	case *wasmGuest:
		bytes = int64(g.instance.Memory().Size())
	case *processGuest:
		if g.runner.group != nil {
			bytes = g.runner.group.MemoryBytes()
		}
	}
	u.mu.Unlock()
	u.stateMu.Lock()
	u.memory = coarse(bytes)
	u.stateMu.Unlock()
}

// coarse rounds up to one of four steps an octave: a figure that moves a little
// all the time is no reason to write an object.
func coarse(n int64) int64 {
	if n <= 0 {
		return 0
	}
	step := int64(1) << max(bits.Len64(uint64(n))-3, 0)
	return (n + step - 1) / step * step
}
