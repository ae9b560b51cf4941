package handover

import (
	"testing"
	"time"
)

// TestWatch: whoever watches is asked until it lets others go on, and not about a call
// that is over.
func TestWatch(t *testing.T) {
	if Watch(func() {}, time.Hour, func() bool { t.Error("asked about a call in time"); return true }) {
		t.Error("a call in time was left")
	}
	asked, left := 0, make(chan struct{})
	late := func() bool {
		if asked++; asked < 3 {
			return false
		}
		close(left)
		return true
	}
	if !Watch(func() { <-left }, time.Millisecond, late) || asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	refused := make(chan struct{}, 1)
	never := func() bool {
		select {
		case refused <- struct{}{}:
		default:
		}
		return false
	}
	if Watch(func() { <-refused }, time.Millisecond, never) {
		t.Error("a call was left that could not be")
	}
}
