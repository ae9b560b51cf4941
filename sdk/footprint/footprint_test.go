package footprint

import (
	"bytes"
	"slices"
	"testing"
)

func TestPace(t *testing.T) {
	const mib = 1 << 20
	type step struct{ cycles, live uint64 }
	for name, tc := range map[string]struct {
		room    uint64
		steps   []step
		want    []int
		relaxed int
	}{
		"rest after five quiet periods, once": {
			steps: []step{{0, 0}, {0, 0}, {1, 0}, {1, 0}, {2, 0}, {2, 0}, {3, 0}}, want: []int{idlePercent}, relaxed: 1,
		},
		"work gives room": {steps: []step{{2, 10 * mib}}, want: []int{busyPercent}},
		"work after rest, rest after work": {
			steps:   []step{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {5, mib}, {5, mib}, {5, mib}, {5, mib}, {5, mib}, {5, mib}},
			want:    []int{idlePercent, busyPercent, idlePercent},
			relaxed: 2,
		},
		"a large heap gets what the machine has":           {room: 1024 * mib, steps: []step{{2, 512 * mib}}, want: []int{200}},
		"a heap beyond the room collects as Go always did": {room: 1024 * mib, steps: []step{{2, 4096 * mib}}, want: []int{fairPercent}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			relaxed := 0
			p := &pace{room: tc.room, set: func(percent int) { got = append(got, percent) }, relax: func() { relaxed++ }}
			for _, s := range tc.steps {
				p.tick(s.cycles, s.live)
			}
			if !slices.Equal(got, tc.want) || relaxed != tc.relaxed {
				t.Errorf("set %v and relaxed %d times, want %v and %d", got, relaxed, tc.want, tc.relaxed)
			}
		})
	}
}

// Whatever is dropped has to come back: code runs and constants are the same.
func TestRelaxChangesNothing(t *testing.T) {
	before := bytes.Repeat([]byte("pintle"), 1000)
	relax()
	if !bytes.Equal(before, bytes.Repeat([]byte("pintle"), 1000)) {
		t.Error("constants changed")
	}
}
