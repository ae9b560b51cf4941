package resultcache

import "testing"

// The first of several answers counts.
func TestExpiryIsTheFirst(t *testing.T) {
	var e expiry
	for _, until := range []int64{0, 500, 700, 0, 300} {
		e.sooner(until)
	}
	if e != 300 {
		t.Errorf("it ends at %d, want 300", e)
	}
}
