package footprint

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
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
	set   func(percent int)
	relax func()

	allocated uint64
	quiet     int
}

// Keep works until ctx ends.
func Keep(ctx context.Context) {
	p := &pace{room: machineMemory() / roomShare, set: func(int) {}, relax: relax}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		before := debug.SetGCPercent(busyPercent)
		defer debug.SetGCPercent(before)
		p.set = func(percent int) { debug.SetGCPercent(percent) }
	}
	samples := []metrics.Sample{{Name: metricAllocated}, {Name: metricLive}}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		p.tick(number(samples[0]), number(samples[1]))
	}
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
	}
	if p.quiet >= idlePeriods && (p.quiet-idlePeriods)%againPeriods == 0 {
		p.relax()
	}
}

// percent is busyPercent, less where that much garbage has no room.
func (p *pace) percent(live uint64) int {
	if p.room == 0 || live == 0 || live*busyPercent/100 <= p.room {
		return busyPercent
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
