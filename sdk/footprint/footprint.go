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
	// busyCycles is how many collections within one period mean work.
	busyCycles = 2
	// idlePeriods without work, in a row, mean rest.
	idlePeriods = 5
	period      = time.Second

	metricCycles = "/gc/cycles/automatic:gc-cycles"
	metricLive   = "/gc/heap/live:bytes"
)

// pace decides from what it is told once a period.
type pace struct {
	room  uint64 // bytes that garbage may take; 0: unknown
	set   func(percent int)
	relax func()

	cycles uint64
	quiet  int
	idle   bool
}

// Keep works until ctx ends.
func Keep(ctx context.Context) {
	p := &pace{room: machineMemory() / roomShare, set: func(int) {}, relax: relax}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		before := debug.SetGCPercent(busyPercent)
		defer debug.SetGCPercent(before)
		p.set = func(percent int) { debug.SetGCPercent(percent) }
	}
	samples := []metrics.Sample{{Name: metricCycles}, {Name: metricLive}}
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

// tick takes the collections since the start of the process and the bytes that
// the last one found alive.
func (p *pace) tick(cycles, live uint64) {
	ran := cycles - p.cycles
	p.cycles = cycles
	if ran >= busyCycles {
		p.quiet, p.idle = 0, false
		p.set(p.percent(live))
		return
	}
	if p.quiet++; p.quiet >= idlePeriods && !p.idle {
		p.idle = true
		p.set(idlePercent)
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
