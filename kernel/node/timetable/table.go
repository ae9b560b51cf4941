package timetable

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Task is one piece of regular work; it answers after how long it is due again, 0 when only a poke makes it so.
type Task func(ctx context.Context) time.Duration

// Entry is a task in a table.
type Entry struct {
	table *Table
	ctx   context.Context //nolint:containedctx // what the task is called with: its owner's lifetime
	task  Task

	// The fields below belong to the table's lock.
	at      time.Time
	index   int // in the table's heap; -1: not there
	working bool
	again   bool
	removed bool
	idle    chan struct{} // made by who waits until the task has returned
}

// Table calls tasks.
type Table struct {
	limit int
	wake  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	due     entries
	working int
	closed  bool
}

// New makes an empty table that calls at most limit tasks at once; 0 is no limit. Run it.
func New(limit int) *Table { return &Table{limit: limit, wake: make(chan struct{}, 1)} }

// Add has the task called after first, and then as it answers, until ctx ends or the entry is removed.
func (t *Table) Add(ctx context.Context, first time.Duration, task Task) *Entry {
	e := &Entry{table: t, ctx: ctx, task: task, index: -1}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedule(e, time.Now().Add(first))
	return e
}

// Poke makes the task due now, or again as soon as it has returned.
func (e *Entry) Poke() {
	t := e.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.working {
		e.again = true
		return
	}
	t.schedule(e, time.Now())
}

// Remove takes the task off the table and waits until it has returned. It must not be called by the task itself.
func (e *Entry) Remove() {
	t := e.table
	t.mu.Lock()
	e.removed = true
	if e.index >= 0 {
		heap.Remove(&t.due, e.index)
	}
	if !e.working {
		t.mu.Unlock()
		return
	}
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	idle := e.idle
	t.mu.Unlock()
	<-idle
}

// Run calls what is due until ctx ends, and returns when the tasks under way have.
func (t *Table) Run(ctx context.Context) {
	defer t.wg.Wait()
	defer func() {
		t.mu.Lock()
		t.closed = true
		t.mu.Unlock()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if wait := t.begin(); wait >= 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.wake:
		}
	}
}

// begin starts what is due and may start, and answers how long nothing else is due; negative: until woken.
func (t *Table) begin() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for {
		if len(t.due) == 0 || t.limit > 0 && t.working >= t.limit {
			return -1
		}
		if wait := t.due[0].at.Sub(now); wait > 0 {
			return wait
		}
		e := t.take()
		t.working++
		t.wg.Go(func() { t.work(e) })
	}
}

// take removes the first entry, to be called. The caller holds the lock.
func (t *Table) take() *Entry {
	e := heap.Pop(&t.due).(*Entry)
	e.working = true
	return e
}

// work calls e and then whatever is due by then.
func (t *Table) work(e *Entry) {
	for e != nil {
		next := time.Duration(0)
		if e.ctx.Err() == nil {
			next = e.task(e.ctx)
		}
		t.mu.Lock()
		e.working = false
		switch {
		case e.idle != nil:
			close(e.idle)
			e.idle = nil
		case e.again:
			t.schedule(e, time.Now())
		case next > 0:
			t.schedule(e, time.Now().Add(next))
		}
		e.again = false
		e = nil
		if !t.closed && len(t.due) > 0 && !t.due[0].at.After(time.Now()) {
			e = t.take()
		} else {
			t.working--
			t.tell()
		}
		t.mu.Unlock()
	}
}

// schedule makes e due at a moment; of two the earlier one counts. The caller holds the lock.
func (t *Table) schedule(e *Entry, at time.Time) {
	switch {
	case e.removed || e.ctx.Err() != nil:
		return
	case e.index < 0:
		e.at = at
		heap.Push(&t.due, e)
	case at.Before(e.at):
		e.at = at
		heap.Fix(&t.due, e.index)
	default:
		return
	}
	if e.index == 0 {
		t.tell()
	}
}

// tell has Run look again.
func (t *Table) tell() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// entries are a heap by the moment they are due.
type entries []*Entry

func (s entries) Len() int           { return len(s) }
func (s entries) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s entries) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *entries) Push(x any) {
	e := x.(*Entry)
	e.index = len(*s)
	*s = append(*s, e)
}

func (s *entries) Pop() any {
	last := len(*s) - 1
	e := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	e.index = -1
	return e
}
