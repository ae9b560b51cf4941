package placements

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// cycleTime is how long an attempt to place a pod took.
type cycleTime struct {
	Wall time.Duration
	// Worked is the processor time of its thread, Queued how long that thread was
	// ready to run and another had the processor. The rest of Wall it slept: for a
	// lock, for an answer, for its turn in the process.
	Worked, Queued time.Duration
}

func (c cycleTime) most(o cycleTime) cycleTime {
	return cycleTime{max(c.Wall, o.Wall), max(c.Worked, o.Worked), max(c.Queued, o.Queued)}
}

// cycleMeter measures the attempts of a scheduler, which begins and ends a span
// for each, on one goroutine.
type cycleMeter struct {
	noop.Tracer
	mu sync.Mutex
	// slowest is the attempt of the longest Wall, most the largest of each.
	slowest, most cycleTime
}

func (m *cycleMeter) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	runtime.LockOSThread() // so that both readings are of one thread
	s := &cycleSpan{meter: m}
	s.worked, s.queued = threadTime()
	s.began = time.Now()
	return ctx, s
}

// reset returns what was measured since the last call.
func (m *cycleMeter) reset() (slowest, most cycleTime) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slowest, most = m.slowest, m.most
	m.slowest, m.most = cycleTime{}, cycleTime{}
	return slowest, most
}

type cycleSpan struct {
	noop.Span
	meter          *cycleMeter
	began          time.Time
	worked, queued time.Duration
}

func (s *cycleSpan) End(...trace.SpanEndOption) {
	c := cycleTime{Wall: time.Since(s.began)}
	worked, queued := threadTime()
	runtime.UnlockOSThread()
	c.Worked, c.Queued = worked-s.worked, queued-s.queued
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	if c.Wall > s.meter.slowest.Wall {
		s.meter.slowest = c
	}
	s.meter.most = s.meter.most.most(c)
}

// threadTime is how long the calling thread had a processor, and how long it
// waited for one (proc_pid_schedstat); zero where the system does not say.
func threadTime() (worked, queued time.Duration) {
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err == nil {
		fmt.Sscan(string(text), &worked, &queued)
	}
	return worked, queued
}
