package replicaset

import (
	"sync"
	"time"
)

const (
	// pacePod is how long the status of a set rests for each of its pods after
	// it was written, at most paceLimit.
	pacePod   = 200 * time.Microsecond
	paceLimit = 200 * time.Millisecond
)

// pace keeps the status of large sets from being written at each change of a
// pod: a thousand pods that start or end together change thousands of times,
// and each write of a status costs its watchers a look too. A small set does
// not notice.
type pace struct {
	mu    sync.Mutex
	rests map[string]time.Time // until when, by key
}

func newPace() *pace { return &pace{rests: map[string]time.Time{}} }

// left is how long the status of the key rests still.
func (p *pace) left(key string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.rests[key].Sub(now))
}

// wrote notes a write of the status of a set of n pods.
func (p *pace) wrote(key string, n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests[key] = now.Add(min(time.Duration(n)*pacePod, paceLimit))
}

func (p *pace) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rests, key)
}
