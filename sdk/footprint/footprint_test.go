package footprint

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	const mib = 1 << 20
	type step struct{ allocated, live uint64 }
	rest := func(allocated uint64) []step { return slices.Repeat([]step{{allocated * mib, mib}}, idlePeriods) }
	for name, tc := range map[string]struct {
		room    uint64
		spare   uint64
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
		"little alive, and room":                           {room: 1024 * mib, spare: 256 * mib, steps: []step{{20 * mib, 16 * mib}, {40 * mib, 128 * mib}}, want: []int{1600, busyPercent}},
		"next to nothing alive":                            {room: 1024 * mib, spare: 256 * mib, steps: []step{{20 * mib, 0}}, want: []int{6400}},
		"a heap beyond the room collects as Go always did": {room: 1024 * mib, steps: []step{{20 * mib, 4096 * mib}}, want: []int{fairPercent}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			relaxed, rests := 0, 0
			p := &pace{room: tc.room, spare: tc.spare, set: func(percent int) { got = append(got, percent) }, relax: func() { relaxed++ }, rest: func() { rests++ }}
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

// What a collection finds alive counts at once, but not during a rest.
func TestCollected(t *testing.T) {
	const mib = 1 << 20
	var got []int
	p := &pace{room: 1024 * mib, spare: 256 * mib, set: func(percent int) { got = append(got, percent) }, relax: func() {}, rest: func() {}}
	p.collected(32 * mib)
	p.collected(512 * mib)
	for range idlePeriods {
		p.tick(mib, 32*mib)
	}
	p.collected(32 * mib)
	if want := []int{800, 200, idlePercent}; !slices.Equal(got, want) {
		t.Errorf("set %v, want %v", got, want)
	}
}

// Each collection is told of once somebody listens, and none after the stop.
func TestAfterCollections(t *testing.T) {
	told := make(chan struct{}, 1)
	stop := afterCollections(told)
	for i := range 3 {
		runtime.GC()
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Fatalf("collection %d was not told of", i)
		}
	}
	stop()
	// One that was under way may still be told of; it arms nothing.
	for range 2 {
		runtime.GC()
	}
	select {
	case <-told:
	default:
	}
	runtime.GC()
	select {
	case <-told:
		t.Error("told after the stop")
	default:
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
