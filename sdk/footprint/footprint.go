package footprint

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// busyPercent and idlePercent are values of GOGC.
	busyPercent = 400
	idlePercent = 50
	// fairPercent is the least while busy, however large the heap.
	fairPercent = 100
	// roomShare is the part of the machine's memory, one in so many, that
	// garbage may take before the pace falls from busyPercent to fairPercent.
	roomShare = 16
	// spaciousShare is the part of that room, one in so many, that garbage of a
	// spacious process may take while it is busy, however little is alive.
	spaciousShare = 3
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
	period       = time.Second

	metricAllocated = "/gc/heap/allocs:bytes"
	metricLive      = "/gc/heap/live:bytes"
)

// pace decides from what it is told once a period.
type pace struct {
	room  uint64 // bytes that garbage may take; 0: unknown
	spare uint64 // of them, what it may take however little is alive
	set   func(percent int)
	relax func()
	rest  func()

	allocated uint64
	quiet     int
}

// Options are what Keep may do besides.
type Options struct {
	// AtRest are called at the beginning of a rest, before memory is given back, to
	// drop what is kept for the sake of speed alone.
	AtRest []func()
	// Spacious: the process is the one on its machine that shall be fast from its first
	// moment, when little is alive and a collection would come after each few megabytes.
	Spacious bool
}

// Keep works until ctx ends.
func Keep(ctx context.Context, o Options) {
	p := &pace{room: machineMemory() / roomShare, set: func(int) {}, relax: relax, rest: func() {
		for _, drop := range o.AtRest {
			drop()
		}
	}}
	if o.Spacious {
		p.spare = p.room / spaciousShare
	}
	samples := []metrics.Sample{{Name: metricAllocated}, {Name: metricLive}}
	collected := make(chan struct{}, 1)
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		metrics.Read(samples)
		before := debug.SetGCPercent(p.percent(number(samples[1])))
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
		case <-collected:
			metrics.Read(samples)
			p.collected(number(samples[1]))
		case <-tick.C:
			metrics.Read(samples)
			p.tick(number(samples[0]), number(samples[1]))
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

// tick takes the bytes allocated since the start of the process and those that
// the last collection found alive.
func (p *pace) tick(allocated, live uint64) {
	grown := allocated - p.allocated
	p.allocated = allocated
	if grown >= busyBytes {
		p.quiet = 0
		p.set(p.percent(live))
		return
	}
	p.quiet++
	if p.quiet == idlePeriods {
		p.set(idlePercent)
		p.rest()
	}
	if p.quiet >= idlePeriods && (p.quiet-idlePeriods)%againPeriods == 0 {
		p.relax()
	}
}

// collected takes what a collection found alive, while there is work.
func (p *pace) collected(live uint64) {
	if p.quiet < idlePeriods {
		p.set(p.percent(live))
	}
}

// percent is busyPercent, less where that much garbage has no room, and more where it is
// less than a spacious process may have.
func (p *pace) percent(live uint64) int {
	live = max(live, leastLive)
	if p.room == 0 || live*busyPercent/100 <= p.room {
		return max(busyPercent, int(p.spare*100/live))
	}
	return max(fairPercent, int(p.room*100/live))
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
