package handover

import (
	"sync"
	"time"
)

// Watch makes a call. While that takes longer than a time, it asks on another goroutine
// whether to let others go on, again and again until the answer is true or the call is
// over. It reports whether it was true; who called then waits for its turn by Return.
func Watch(call func(), after time.Duration, late func() bool) bool {
	w := &watch{late: late, every: after / 10}
	w.mu.Lock()
	w.timer = time.AfterFunc(after, w.fire)
	w.mu.Unlock()
	call()
	w.mu.Lock()
	w.over = true
	left := w.left
	w.mu.Unlock()
	w.timer.Stop()
	return left
}

type watch struct {
	late  func() bool
	every time.Duration

	mu         sync.Mutex
	timer      *time.Timer
	over, left bool
}

func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.late():
		w.left = true
	default:
		w.timer.Reset(w.every)
	}
}
