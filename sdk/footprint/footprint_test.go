package footprint

import (
	"bytes"
	"slices"
	"testing"
)

func TestPace(t *testing.T) {
	const mib = 1 << 20
	type step struct{ allocated, live uint64 }
	rest := func(allocated uint64) []step { return slices.Repeat([]step{{allocated * mib, mib}}, idlePeriods) }
	for name, tc := range map[string]struct {
		room    uint64
		steps   []step
		want    []int
		relaxed int
	}{
		"rest after quiet periods, once": {steps: append(rest(1), rest(2)...), want: []int{idlePercent}, relaxed: 1},
		"again during a long rest":       {steps: append(append(rest(1), rest(1)...), rest(1)...), want: []int{idlePercent}, relaxed: 2},
		"not yet rest":                   {steps: rest(1)[1:]},
		"work gives room":                {steps: []step{{20 * mib, 10 * mib}}, want: []int{busyPercent}},
		"work after rest, rest after work": {
			steps: slices.Concat(rest(0), []step{{30 * mib, mib}}, rest(31)),
			want:  []int{idlePercent, busyPercent, idlePercent}, relaxed: 2,
		},
		"a large heap gets what the machine has":           {room: 1024 * mib, steps: []step{{20 * mib, 512 * mib}}, want: []int{200}},
		"a heap beyond the room collects as Go always did": {room: 1024 * mib, steps: []step{{20 * mib, 4096 * mib}}, want: []int{fairPercent}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			relaxed, rests := 0, 0
			p := &pace{room: tc.room, set: func(percent int) { got = append(got, percent) }, relax: func() { relaxed++ }, rest: func() { rests++ }}
			for _, s := range tc.steps {
				p.tick(s.allocated, s.live)
			}
			if want := len(slices.DeleteFunc(slices.Clone(tc.want), func(percent int) bool { return percent != idlePercent })); rests != want {
				t.Errorf("%d rests, want %d", rests, want)
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
