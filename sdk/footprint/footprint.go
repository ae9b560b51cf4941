package footprint

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// busyPercent is the highest GOGC of a process without room of its own, and
	// idlePercent the one at rest.
	busyPercent = 400
	idlePercent = 50
	// startGarbage is how much garbage a process may hold while it starts, in bytes: what
	// it keeps for good lies between its garbage, in spans that stay. After the start the
	// bound grows by each byte that it allocates.
	startGarbage = 24 << 20
	// leastLive is the heap below which the runtime reckons as with so much.
	leastLive = 4 << 20
	// busyBytes allocated within one period mean work. Collections are no
	// measure: a large heap with room is collected rarely, however busy.
	busyBytes = 16 << 20
	// idlePeriods without work, in a row, mean rest.
	idlePeriods = 10
	// againPeriods is how often memory is given back during a rest: what looks
	// after a cluster brings it back bit by bit.
	againPeriods = 15
	// sparePeriods is how long memory may lie unused during work.
	sparePeriods = 8
	// leastSpare is worth a collection to be given back.
	leastSpare = 64 << 20
	period     = time.Second

	metricAllocated = "/gc/heap/allocs:bytes"
	metricLive      = "/gc/heap/live:bytes"
	metricObjects   = "/memory/classes/heap/objects:bytes"
	metricUnused    = "/memory/classes/heap/unused:bytes"
	metricFree      = "/memory/classes/heap/free:bytes"
)

// DefaultGarbage is the garbage, in bytes, that a process may hold besides as much as is alive.
const DefaultGarbage = 100 << 20

// pace decides once a period, from readings of the heap.
type pace struct {
	garbage  uint64 // bytes that it may take besides as much as is alive
	spacious bool
	set      func(percent int)
	relax    func()
	rest     func()
	work     func() // after a rest
	starting bool
	// atStart is what was allocated when the start was over; 0: there was none.
	atStart uint64

	allocated uint64
	quiet     int
	// window and since are the periods since memory was last looked through for what is
	// unused, and what was allocated before.
	window int
	since  uint64
}

// reading is what the runtime tells of the heap, in bytes.
type reading struct {
	allocated uint64 // since the start of the process
	live      uint64 // what the last collection found
	held      uint64 // taken from the system: objects, garbage, and what is free
}

// Options are what Keep may do besides.
type Options struct {
	// AtRest are called at the beginning of a rest, before memory is given back, to
	// drop what is kept for the sake of speed alone.
	AtRest []func()
	// Garbage is how much, in bytes, may lie in the heap before a collection, besides as
	// much as is alive; 0: DefaultGarbage.
	Garbage uint64
	// Spacious: the process is the one on its machine that may have Garbage from its first
	// moment, when little is alive and a collection would come after each few megabytes.
	Spacious bool
	// Started is closed when the process has what it needs for its work. Until then it
	// holds little garbage. nil: it does not start so.
	Started <-chan struct{}
}

// Keep works until ctx ends.
func Keep(ctx context.Context, o Options) {
	p := &pace{garbage: cmp.Or(o.Garbage, DefaultGarbage), spacious: o.Spacious, starting: o.Started != nil, set: func(int) {}, relax: relax, work: restoreProgramPages, rest: func() {
		for _, drop := range o.AtRest {
			drop()
		}
	}}
	samples := []metrics.Sample{{Name: metricAllocated}, {Name: metricLive}, {Name: metricObjects}, {Name: metricUnused}, {Name: metricFree}}
	read := func() reading {
		metrics.Read(samples)
		return reading{allocated: number(samples[0]), live: number(samples[1]), held: number(samples[2]) + number(samples[3]) + number(samples[4])}
	}
	started, collected := o.Started, make(chan struct{}, 1)
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		before := debug.SetGCPercent(p.percent(read()))
		defer debug.SetGCPercent(before)
		p.set = func(percent int) { debug.SetGCPercent(percent) }
		defer afterCollections(collected)()
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-started:
			started = nil
			p.started(read())
		case <-collected:
			p.collected(read())
		case <-tick.C:
			p.tick(read())
		}
	}
}

// afterCollections tells when the collector has run, until it is stopped: what it found alive
// may be many times what the pace was set for.
func afterCollections(tell chan<- struct{}) (stop func()) {
	var stopped atomic.Bool
	var arm func()
	arm = func() {
		sentinel := new([16]byte) // garbage at once, and not part of another allocation
		runtime.AddCleanup(sentinel, func(struct{}) {
			if stopped.Load() {
				return
			}
			arm()
			select {
			case tell <- struct{}{}:
			default:
			}
		}, struct{}{})
	}
	arm()
	return func() { stopped.Store(true) }
}

// tick takes a reading once a period.
func (p *pace) tick(r reading) {
	grown := r.allocated - p.allocated
	p.allocated = r.allocated
	if grown >= busyBytes {
		if p.quiet >= idlePeriods {
			p.work()
		}
		p.quiet = 0
		p.set(p.percent(r))
		p.giveBack(r)
		return
	}
	p.quiet++
	if p.quiet == idlePeriods {
		p.set(idlePercent)
		p.rest()
	}
	switch {
	case p.quiet < idlePeriods:
		p.giveBack(r)
	case (p.quiet-idlePeriods)%againPeriods == 0:
		p.relax()
		p.window, p.since = 0, r.allocated
	}
}

// giveBack returns memory to the system during work. What was not allocated within a window
// is not needed soon: the heap holds more beside what is alive than work takes in that time.
func (p *pace) giveBack(r reading) {
	if p.window++; p.window < sparePeriods {
		return
	}
	spare, used := r.held-min(r.held, r.live), r.allocated-p.since
	p.window, p.since = 0, r.allocated
	if spare >= leastSpare && used < spare {
		p.relax()
	}
}

// started takes what there is at the end of a start.
func (p *pace) started(r reading) {
	p.starting, p.atStart = false, max(r.allocated, 1)
	p.collected(r)
}

// collected takes what a collection found alive, while there is work.
func (p *pace) collected(r reading) {
	if p.quiet < idlePeriods {
		p.set(p.percent(r))
	}
}

// percent lets garbage grow to as much as is alive and p.garbage besides, and to less
// during and after a start: there too a large heap has the room that it has at rest.
func (p *pace) percent(r reading) int {
	live := max(r.live, leastLive)
	percent := 100 + p.garbage*100/live
	if !p.spacious {
		percent = min(busyPercent, percent)
	}
	if p.starting {
		return int(max(idlePercent, min(percent, startGarbage*100/live)))
	}
	if p.atStart > 0 {
		percent = max(idlePercent, min(percent, (startGarbage+r.allocated-p.atStart)*100/live))
	}
	return int(percent)
}

// relax returns what start or work has left to the system.
func relax() {
	debug.FreeOSMemory()
	dropProgramPages()
}

func number(s metrics.Sample) uint64 {
	if s.Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s.Value.Uint64()
}
