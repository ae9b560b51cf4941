package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pintle.dev/pintle/e2e/bench/rig"
)

// side is a server that is asked.
type side struct {
	address string
	pid     int
}

// turn is what a server reached while it was asked for some time.
type turn struct {
	rate float64       // answers a second
	cost time.Duration // processor time of the server for one
	p99  float64       // ms
}

// take has clients ask a server for a time, each one question after the other. ask returns how
// long each of its questions took, in ms. An answer that is wrong or does not come fails the turn.
func (s side) take(ctx context.Context, clients int, long time.Duration, ask func(until time.Time) ([]float64, error)) (turn, error) {
	var mu sync.Mutex
	var took []float64
	var errs []error
	used, begin := family(s.pid), time.Now()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			own, err := ask(begin.Add(long))
			mu.Lock()
			defer mu.Unlock()
			took, errs = append(took, own...), append(errs, err)
		})
	}
	group.Wait()
	seconds, busy := time.Since(begin).Seconds(), family(s.pid)-used
	if err := errors.Join(errs...); err != nil || len(took) == 0 {
		return turn{}, errors.Join(err, ctx.Err())
	}
	if busy <= 0 {
		return turn{}, fmt.Errorf("process %d has ended meanwhile", s.pid)
	}
	slices.Sort(took)
	return turn{rate: float64(len(took)) / seconds, cost: busy / time.Duration(len(took)), p99: took[len(took)*99/100]}, nil
}

// family is the processor time of a process and of its children, such as nginx's workers.
func family(pid int) time.Duration {
	total := rig.ProcessorTime(pid)
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(raw)) {
		if child, err := strconv.Atoi(field); err == nil {
			total += rig.ProcessorTime(child)
		}
	}
	return total
}

// column is one value of each turn.
func column(turns []turn, of func(turn) float64) []float64 {
	var out []float64
	for _, t := range turns {
		out = append(out, of(t))
	}
	return out
}

func rateOf(t turn) float64    { return t.rate }
func p99Of(t turn) float64     { return t.p99 }
func costOf(t turn) float64    { return t.cost.Seconds() * 1e6 } // µs
func perCoreOf(t turn) float64 { return 1 / t.cost.Seconds() }
