package recorder

import (
	"time"

	"k8s.io/utils/clock"
)

// heldFor is how long an event waits at most for what is more urgent.
const heldFor = time.Second

// Hold tells whether somebody has something more urgent to do from now on, which
// events would share processors and the store with. They are held back until
// that ends, the oldest has waited for a second, or Config.Held of them wait: then a batch is
// written, and the rest is held again.
func (r *Recorder) Hold(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = on
	for range r.cfg.Writers {
		r.staff()
	}
}

// held reports whether nothing of what waits is to be written now. The lock is held.
func (r *Recorder) held() bool {
	if !r.holding || r.waiting == 0 || r.waiting >= r.cfg.Held {
		return false
	}
	left := heldFor - r.deps.Clock.Since(r.queue[0][0].at)
	if left > 0 && !r.timed {
		r.timed = true
		timer := r.deps.Clock.NewTimer(left)
		r.writers.Go(func() { r.release(timer) })
	}
	return left > 0
}

// release has events written that were held for long enough by then.
func (r *Recorder) release(then clock.Timer) {
	defer then.Stop()
	select {
	case <-then.C():
	case <-r.stopped:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timed = false
	r.staff()
}
