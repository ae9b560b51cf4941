package plugin

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// stats counts the calls of one plugin. The scheduling cycle writes, the
// status writer reads; a record costs four atomic additions.
type stats struct {
	calls       atomic.Int64
	failures    atomic.Int64
	nanoseconds atomic.Int64 // that all calls took
	buckets     [64 * 4]atomic.Uint64
	circuit     breaker
	// others are the calls that ended with another code than success, which all the
	// rest did; nil: none did.
	others  [len(endings)]atomic.Pointer[distribution]
	briefly briefly

	mu     sync.Mutex
	faded  *[64 * 4]uint64 // of the buckets, what p99 no longer looks at
	last   string          // what the last failure was, if that did not end the guest
	logged time.Time
}

// counted are the counters of a plugin, which its instances share.
func (u *unit) counted(name string) *stats {
	if s := u.stats[name]; s != nil {
		return s
	}
	return u.stats[guest.PluginOf(name)]
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

// record counts one call. Of one that failed the time may not be known: 0.
func (s *stats) record(d time.Duration, err error) {
	s.calls.Add(1)
	if err != nil {
		s.failures.Add(1)
		s.ended(contractv1.Code_ERROR, d)
	}
	s.nanoseconds.Add(int64(d))
	at := bucketOf(uint64(max(d, 1)))
	s.buckets[at].Add(1)
	if err != nil && d <= 0 {
		s.fade(at)
	}
}

// fade has p99 leave out a call whose time is not known.
func (s *stats) fade(bucket int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faded == nil {
		s.faded = new([len(s.buckets)]uint64)
	}
	s.faded[bucket]++
}

// succeed takes over the counts of the plugin that this one replaces; how long
// that took says nothing about this one.
func (s *stats) succeed(old *stats) {
	old.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.Add(old.calls.Load())
	s.failures.Add(old.failures.Load())
	s.nanoseconds.Add(old.nanoseconds.Load())
	if s.faded == nil {
		s.faded = new([len(s.buckets)]uint64)
	}
	for i := range s.buckets {
		n := old.buckets[i].Load()
		s.faded[i] += n
		s.buckets[i].Add(n)
	}
	for k := range endings {
		if o := old.others[k].Load(); o != nil {
			s.others[k].CompareAndSwap(nil, o) // the old one counts no more
		}
	}
}

// endings are the codes that a call can end with, beside success.
var endings = [...]contractv1.Code{
	contractv1.Code_ERROR, contractv1.Code_UNSCHEDULABLE, contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE, contractv1.Code_WAIT, contractv1.Code_SKIP,
}

// distribution is how long calls took.
type distribution struct {
	nanoseconds atomic.Int64
	buckets     [64 * 4]atomic.Uint64
}

// ended notes that a call which record counts ended with a code; errors it knows.
func (s *stats) ended(code contractv1.Code, d time.Duration) {
	k := slices.Index(endings[:], code)
	if k < 0 {
		return
	}
	o := s.other(k)
	o.nanoseconds.Add(int64(d))
	o.buckets[bucketOf(uint64(max(d, 1)))].Add(1)
}

// other are the calls that ended with the k-th code.
func (s *stats) other(k int) *distribution {
	o := s.others[k].Load()
	if o == nil {
		s.others[k].CompareAndSwap(nil, &distribution{})
		o = s.others[k].Load()
	}
	return o
}

// filtered is the code of a predicate's answer about several nodes: as that about
// the first if it refused them all.
func filtered(verdicts []uint32, unresolvable func(verdict uint32) bool) contractv1.Code {
	switch {
	case len(verdicts) == 0 || slices.Contains(verdicts, 0):
		return contractv1.Code_SUCCESS
	case unresolvable(verdicts[0]):
		return contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE
	}
	return contractv1.Code_UNSCHEDULABLE
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
// 0 before the first. When there are many it leaves half of them behind, so that
// old calls fade.
func (s *stats) p99() time.Duration {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts [len(s.buckets)]uint64
	var total uint64
	for i := range s.buckets {
		counts[i] = s.buckets[i].Load()
		if s.faded != nil {
			counts[i] -= min(s.faded[i], counts[i])
		}
		total += counts[i]
	}
	if total == 0 {
		return 0
	}
	var seen uint64
	found := time.Duration(0)
	for i, n := range counts {
		if seen += n; seen*100 >= total*99 {
			top, part := i/4, i%4
			found = time.Duration((uint64(1)<<top)/4*uint64(5+part) + 1)
			break
		}
	}
	if total > 100_000 {
		if s.faded == nil {
			s.faded = new([len(s.buckets)]uint64)
		}
		for i, n := range counts {
			s.faded[i] += n / 2
		}
	}
	return found
}

// measure notes what memory the guest uses, unless it is being called.
func (u *unit) measure() {
	if !u.mu.TryLock() {
		return
	}
	if u.lent != nil || u.catching != nil {
		u.mu.Unlock() // a late call or the supervisor uses the guest without mu
		return
	}
	var bytes int64
	if g, ok := u.guest.(guest.Sized); ok {
		var most int64
		bytes, most = g.Usage()
		u.watchMemory(bytes, most)
	}
	u.mu.Unlock()
	u.stateMu.Lock()
	u.memory = coarse(bytes)
	u.stateMu.Unlock()
}

// watchMemory warns once of a module that has nearly all of the memory that it may
// have: memory.grow then gives it -1, which it may not tell. mu is held.
func (u *unit) watchMemory(size, most int64) {
	if most == 0 || size < most-most/10 || u.warnedOf == u.started {
		return
	}
	u.warnedOf = u.started
	u.log.Warn("module has nearly all of the memory that it may have; limits.memory of its bundle gives it more", "bytes", size, "limit", most)
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
