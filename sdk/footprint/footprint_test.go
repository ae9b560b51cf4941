package footprint

import (
	"bytes"
	"cmp"
	"runtime"
	"slices"
	"testing"
	"time"
)

const mib = 1 << 20

func TestPace(t *testing.T) {
	rest := func(allocated uint64) []reading {
		return slices.Repeat([]reading{{allocated: allocated * mib, live: mib}}, idlePeriods)
	}
	// work allocates so many MiB a period, and finds live and held the same.
	work := func(periods int, each, live, held uint64) (all []reading) {
		for i := range periods {
			all = append(all, reading{allocated: uint64(i+1) * each * mib, live: live * mib, held: held * mib})
		}
		return all
	}
	for name, tc := range map[string]struct {
		garbage  uint64
		spacious bool
		readings []reading
		want     []int // each once in a row
		relaxed  int
		worked   int // times that work began after a rest
	}{
		"rest after quiet periods, once": {readings: append(rest(1), rest(2)...), want: []int{idlePercent}, relaxed: 1},
		"again during a long rest":       {readings: append(append(rest(1), rest(1)...), rest(1)...), want: []int{idlePercent}, relaxed: 2},
		"not yet rest":                   {readings: rest(1)[1:]},
		"work gives room":                {readings: work(1, 20, 10, 10), want: []int{busyPercent}},
		"work after rest, rest after work": {
			readings: slices.Concat(rest(0), work(1, 30, 1, 1), rest(31)),
			want:     []int{idlePercent, busyPercent, idlePercent}, relaxed: 2, worked: 1,
		},
		"garbage as much as is alive and the room": {readings: work(1, 20, 200, 200), want: []int{150}},
		"a large heap":                     {readings: work(1, 20, 10000, 10000), want: []int{101}},
		"little alive, in a spacious one":  {spacious: true, readings: work(1, 20, 10, 10), want: []int{1100}},
		"next to nothing alive":            {spacious: true, readings: work(1, 20, 0, 10), want: []int{2600}},
		"more room is bought":              {spacious: true, garbage: 1500, readings: work(1, 20, 200, 200), want: []int{850}},
		"what work needs is kept":          {readings: work(3*sparePeriods, 100, 200, 520), want: []int{150}},
		"what work leaves is given back":   {readings: work(sparePeriods, 20, 200, 1200), want: []int{150}, relaxed: 1},
		"again where it stays":             {readings: work(3*sparePeriods, 20, 200, 1200), want: []int{150}, relaxed: 3},
		"little is not worth a collection": {readings: work(3*sparePeriods, 16, 200, 250), want: []int{150}},
		"between work and rest":            {readings: slices.Concat(work(1, 900, 200, 1200), work(sparePeriods, 0, 200, 1200)), want: []int{150}, relaxed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			relaxed, rests, worked := 0, 0, 0
			p := &pace{
				garbage: cmp.Or(tc.garbage, 100) * mib, spacious: tc.spacious,
				set: func(percent int) { got = append(got, percent) }, relax: func() { relaxed++ }, rest: func() { rests++ }, work: func() { worked++ },
			}
			for _, r := range tc.readings {
				p.tick(r)
			}
			got = slices.Compact(got)
			if want := len(slices.DeleteFunc(slices.Clone(tc.want), func(percent int) bool { return percent != idlePercent })); rests != want {
				t.Errorf("%d rests, want %d", rests, want)
			}
			if worked != tc.worked {
				t.Errorf("work began %d times after a rest, want %d", worked, tc.worked)
			}
			if !slices.Equal(got, tc.want) || relaxed != tc.relaxed {
				t.Errorf("set %v and relaxed %d times, want %v and %d", got, relaxed, tc.want, tc.relaxed)
			}
		})
	}
}

// What a collection finds alive counts at once, but not during a rest.
func TestCollected(t *testing.T) {
	var got []int
	p := &pace{garbage: 100 * mib, spacious: true, set: func(percent int) { got = append(got, percent) }, relax: func() {}, rest: func() {}}
	p.collected(reading{live: 25 * mib})
	p.collected(reading{live: 500 * mib})
	for range idlePeriods {
		p.tick(reading{allocated: mib, live: 32 * mib})
	}
	p.collected(reading{live: 32 * mib})
	if want := []int{500, 120, idlePercent}; !slices.Equal(got, want) {
		t.Errorf("set %v, want %v", got, want)
	}
}

// A start has little room, and more comes with what is allocated behind it.
func TestStart(t *testing.T) {
	for _, tc := range []struct {
		name     string
		spacious bool
		want     []int
	}{
		{"kernel", true, []int{600, 120, 60, 110, 350, 350}},
		{"another process", false, []int{400, 120, 60, 110, 350, 350}},
	} {
		var got []int
		p := &pace{garbage: 100 * mib, spacious: tc.spacious, starting: true, set: func(percent int) { got = append(got, percent) }, relax: func() {}, rest: func() {}}
		p.collected(reading{allocated: mib, live: mib})
		p.collected(reading{allocated: 50 * mib, live: 20 * mib})
		p.started(reading{allocated: 300 * mib, live: 40 * mib})
		p.collected(reading{allocated: 320 * mib, live: 40 * mib})
		p.collected(reading{allocated: 500 * mib, live: 40 * mib})
		p.collected(reading{allocated: 5000 * mib, live: 40 * mib})
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: set %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A start with much alive does not collect without pause.
func TestStartOfALargeHeap(t *testing.T) {
	var got []int
	p := &pace{garbage: 100 * mib, spacious: true, starting: true, set: func(percent int) { got = append(got, percent) }, relax: func() {}, rest: func() {}}
	p.collected(reading{allocated: 5000 * mib, live: 4096 * mib})
	p.started(reading{allocated: 5000 * mib, live: 4096 * mib})
	if want := []int{idlePercent, idlePercent}; !slices.Equal(got, want) {
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
		case <-time.After(2 * time.Minute):
			t.Fatalf("collection %d was not told of", i)
		}
	}
	stop()
	// One that was under way may still be told of, at any time; it arms nothing.
	late := 0
	for range 8 {
		runtime.GC()
		select {
		case <-told:
			late++
		default:
		}
	}
	if late > 1 {
		t.Errorf("told %d times after the stop", late)
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
