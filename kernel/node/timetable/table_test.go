package timetable

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// start runs a table until the test ends.
func start(t *testing.T, limit int) *Table {
	t.Helper()
	table := New(limit)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); table.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return table
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within two minutes: " + what)
		}
	}
}

// TestCalls: a task is called when it is due, again as it answers or when poked, and never beside itself.
func TestCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		first, next time.Duration
		pokes       int
		want        int64 // calls at least
	}{
		"at once, once":     {want: 1},
		"again and again":   {next: time.Millisecond, want: 5},
		"when poked":        {first: time.Hour, pokes: 1, want: 1},
		"poked in its work": {first: time.Hour, pokes: 100, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			table := start(t, 0)
			var calls, at atomic.Int64
			entered := make(chan struct{}, 1000)
			e := table.Add(t.Context(), tc.first, func(context.Context) time.Duration {
				if at.Add(1) > 1 {
					t.Error("called beside itself")
				}
				entered <- struct{}{}
				runtime.Gosched()
				calls.Add(1)
				at.Add(-1)
				return tc.next
			})
			for i := range tc.pokes {
				e.Poke()
				if i == 0 {
					<-entered
				}
			}
			eventually(t, "calls", func() bool { return calls.Load() >= tc.want })
			e.Remove()
			after := calls.Load()
			e.Poke()
			if table.mu.Lock(); len(table.due) != 0 {
				t.Error("it is due though it was removed")
			}
			table.mu.Unlock()
			if calls.Load() != after {
				t.Error("called after Remove")
			}
		})
	}
}

// TestLimit: no more tasks than the limit are under way, the earliest due come first, and all have their turn.
func TestLimit(t *testing.T) {
	const tasks = 50
	for _, limit := range []int{1, 3} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			table := New(limit)
			var mu sync.Mutex
			var order []int
			working, most := 0, 0
			for i := range tasks {
				table.Add(t.Context(), time.Duration(i-tasks)*time.Millisecond, func(context.Context) time.Duration {
					mu.Lock()
					working++
					most = max(most, working)
					order = append(order, i)
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
					working--
					mu.Unlock()
					return 0
				})
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); table.Run(ctx) }()
			eventually(t, "all", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == tasks })
			cancel()
			<-done
			if most > limit {
				t.Errorf("%d at once", most)
			}
			// Of several at once the first may be the last to say so.
			if limit == 1 && !slices.IsSorted(order) {
				t.Errorf("tasks came in the order %v", order)
			}
		})
	}
}

// TestRest: what is not due holds no goroutine.
func TestRest(t *testing.T) {
	table := start(t, 0)
	ran := make(chan struct{})
	table.Add(t.Context(), 0, func(context.Context) time.Duration { close(ran); return time.Hour })
	<-ran
	eventually(t, "rest", func() bool { table.mu.Lock(); defer table.mu.Unlock(); return table.working == 0 })
	before := runtime.NumGoroutine()
	for range 10_000 {
		table.Add(t.Context(), time.Hour, func(context.Context) time.Duration { return 0 })
	}
	if more := runtime.NumGoroutine() - before; more > 0 {
		t.Errorf("%d goroutines for tasks at rest", more)
	}
}

// TestRemoveWaits: Remove returns when the task has, and an ended context keeps it from being called.
func TestRemoveWaits(t *testing.T) {
	table := start(t, 1)
	entered, finish := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) }) // it may be due again before it is removed
	var returned atomic.Bool
	e := table.Add(t.Context(), 0, func(context.Context) time.Duration {
		enter()
		<-finish
		returned.Store(true)
		return time.Nanosecond
	})
	<-entered
	ended, cancel := context.WithCancel(t.Context())
	late := table.Add(ended, 0, func(context.Context) time.Duration { t.Error("called though its context ended"); return 0 })
	cancel()
	removed := make(chan struct{})
	go func() { defer close(removed); e.Remove() }()
	close(finish)
	<-removed
	if !returned.Load() {
		t.Error("Remove did not wait")
	}
	late.Remove()
}
