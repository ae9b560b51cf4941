package scheduler

import "time"

// window is how exact back-off is: pods whose waits end in the same window are
// one lot, which goes by priority (KEP-5142).
const window = time.Second

// delay doubles with each attempt from initial up to max.
func (q *queue) delay(attempts int) time.Duration {
	d := q.initial
	for i := 1; i < attempts && d < q.max; i++ {
		d *= 2
	}
	return min(d, q.max)
}

// windowOf is the beginning of the window that a time lies in. Windows are
// counted from the first time that was seen, so that they run by the monotonic
// clock, which nobody sets.
func (q *queue) windowOf(t time.Time) time.Time {
	if q.epoch.IsZero() {
		q.epoch = t
	}
	since := t.Sub(q.epoch)
	whole := since.Truncate(window)
	if whole > since {
		whole -= window
	}
	return q.epoch.Add(whole)
}

// backsOff reports whether a pod has to wait. A pod that was never refused, nor
// met an error, has not; others wait until the window is over in which their wait
// ends.
func (q *queue) backsOff(p *podEntry, now time.Time) bool {
	count := p.refusals
	if p.faults > 0 {
		count = p.faults
	}
	if count == 0 {
		return false
	}
	if p.ready.IsZero() {
		p.ready = q.windowOf(p.stamp.Add(q.delay(count)))
	}
	return !p.ready.Before(q.windowOf(now))
}

// next is when the first back-off ends; false: none runs that anybody waits for.
func (q *queue) next() (at time.Time, ok bool) {
	for _, h := range []*podHeap{&q.backoff, &q.faulty} {
		if h.Len() > 0 && (!ok || h.items[0].pod.ready.Before(at)) {
			at, ok = h.items[0].pod.ready, true
		}
	}
	return at.Add(window), ok
}

// reorder puts a pod that waits for its turn where it belongs now.
func (q *queue) reorder(p *podEntry, now time.Time) {
	if q.sorted {
		q.add(p, p.entry, now)
		return
	}
	p.prioritize()
	q.fix(p)
}

// fix puts a pod where it belongs in its heap, if it is in one.
func (q *queue) fix(p *podEntry) {
	switch p.place {
	case active:
		q.active.fix(p)
	case backingOff:
		q.heapOf(p).fix(p)
	}
}

// awaits has a pod of the pool tried again at a time; zero: at none.
func (q *queue) awaits(p *podEntry, at time.Time) {
	p.due = at
	if !at.IsZero() && (q.due.IsZero() || at.Before(q.due)) {
		q.due = at
	}
}

// wakeDue brings back the pods of the pool whose time has come.
func (q *queue) wakeDue(now time.Time) {
	if q.due.IsZero() || now.Before(q.due) {
		return
	}
	q.due = time.Time{}
	for _, p := range q.pool {
		switch {
		case p.due.IsZero():
		case now.Before(p.due):
			q.awaits(p, p.due)
		default:
			p.due = time.Time{}
			q.add(p, entry{event: eventExpired}, now)
		}
	}
}
