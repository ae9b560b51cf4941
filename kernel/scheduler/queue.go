package scheduler

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// place says where a pod is on its way.
type place uint8

const (
	nowhere       place = iota // bound, or being bound
	active                     // next to be scheduled
	backingOff                 // waits for its time
	unschedulable              // waits for an event
	gated                      // as unschedulable; it was turned away before it was tried
	entering                   // plugins are to be asked before it enters
	heldBack                   // active, while a plugin of its profile has not answered (yield.go)
)

// podEntry is what the cycle keeps of a pod that has not ended.
type podEntry struct {
	snapshot.Pod
	shape *shape // of which clusterPod has the base

	assumed bool // on its node
	among   int  // its place among those that are, from 1
	gone    bool // it was removed
	// reserved: reserve plugins know of it and are to be told when it comes to
	// nothing.
	reserved bool
	planned  bool // they assumed something for it
	// boundAt is when the API took the binding of an assumed pod.
	boundAt time.Time

	// began is when the attempt under way began; zero: none is, or it was counted.
	began time.Time

	// On the way to its node: what its status says of that, and its time with
	// pre-bind plugins, if it does and there is one.
	expected   *expectation
	preBinding *preBinding
	// forgone is the node whose room it gave up, its binding under way.
	forgone string

	// In the queue.
	place    place
	index    int // in the heap of its place
	priority int32
	since    time.Time // entered the queue first
	stamp    time.Time // entered it last, which orders pods of one priority
	attempts int
	refusals int                // attempts that plugins refused
	faults   int                // errors since
	ready    time.Time          // the window in which back-off ends; zero: to be worked out
	failed   *framework.Failure // who refused it in the last attempt
	key      sortKey            // where plugins order the queue
	keyed    bool               // key is the plugin's
	admitted bool               // plugins let it in
	entry    entry              // how it comes into the queue

	// Of the events that may help it (events.go).
	seen    uint64 // those up to here were seen by the last attempt
	except  uint64 // this one was its own doing
	changed uint32 // what changed of itself while it was being decided about
	group   *podGroup
	flushed bool      // nothing brought it back but the time
	due     time.Time // answers that refused it end; zero: never

	// nominated is the node that the pod is nominated to, and unwritten what of that
	// the API is to be told. While its victims are being evicted (preempting) the pod
	// is not tried; recalled is what would have brought it back.
	nominated  string
	unwritten  *string
	preempting bool
	recalled   entry
	evicted    bool               // it was asked for, of all
	victims    map[*podEntry]bool // that were not seen leaving yet
	evictor    *podEntry          // the pod whose victim it is

	// reason and message are what was told of the pod last.
	reason, message string
}

// entry is how a pod comes into the queue.
type entry struct {
	event string // as metrics name it
	at    bool   // at once, whatever its back-off
}

// queue holds the pods that wait: by priority and then by time in the active
// queue, by time in the back-off queues, by what can help them in the pool.
type queue struct {
	initial, max, flush time.Duration
	epoch               time.Time // where windows of back-off begin

	active  podHeap
	backoff podHeap // refused; taken when nothing is active
	faulty  podHeap // met an error; they wait for their time whatever comes
	pool    map[types.UID]*podEntry
	due     time.Time // of the first of the pool; zero: none is
	gates   int       // of the pool are gated
	groups  map[groupKey]*podGroup

	// doorstep holds the pods about which plugins are to be asked before they
	// enter, where there are such plugins (entering); sorted: plugins say where.
	doorstep         []*podEntry
	entering, sorted bool

	heldBack []*podEntry

	// came counts pods that came into a part of the queue, waits those that are in
	// the pool.
	came  func(queue, event string)
	waits func(p *podEntry, by float64)
}

func newQueue(c *Config) *queue {
	q := &queue{
		initial: c.BackoffInitial, max: c.BackoffMax, flush: c.UnschedulableFlush,
		pool: map[types.UID]*podEntry{}, groups: map[groupKey]*podGroup{},
		came: func(string, string) {}, waits: func(*podEntry, float64) {},
	}
	q.active.less = q.before
	q.backoff.less = func(a, b *turn) bool {
		if !a.pod.ready.Equal(b.pod.ready) {
			return a.pod.ready.Before(b.pod.ready)
		}
		return q.before(a, b)
	}
	q.faulty.less = func(a, b *turn) bool { return a.pod.ready.Before(b.pod.ready) }
	return q
}

// add takes a pod that is new or may fit now.
func (q *queue) add(p *podEntry, e entry, now time.Time) {
	if p.preempting && p.place == unschedulable {
		p.recalled = e
		return
	}
	q.remove(p)
	if p.since.IsZero() {
		p.since = now
	}
	if p.stamp.IsZero() {
		p.stamp = now
	}
	p.entry = e
	p.prioritize()
	if !q.entering {
		q.admit(p, now)
		return
	}
	p.admitted = false
	p.place, p.index = entering, len(q.doorstep)
	q.doorstep = append(q.doorstep, p)
}

func (p *podEntry) prioritize() {
	p.priority = 0
	if p.Object.Spec.Priority != nil {
		p.priority = *p.Object.Spec.Priority
	}
}

// admit puts a pod that may be tried into its heap.
func (q *queue) admit(p *podEntry, now time.Time) {
	p.admitted = true
	switch {
	case p.entry.at || !q.backsOff(p, now):
		p.place = active
		heap.Push(&q.active, p)
		q.came(queueActive, p.entry.event)
	default:
		p.place = backingOff
		heap.Push(q.heapOf(p), p)
		q.came(queueBackoff, p.entry.event)
	}
}

// heapOf is the back-off queue of a pod.
func (q *queue) heapOf(p *podEntry) *podHeap {
	if p.faults > 0 {
		return &q.faulty
	}
	return &q.backoff
}

// remove takes a pod out, wherever it waits.
func (q *queue) remove(p *podEntry) {
	switch p.place {
	case active:
		heap.Remove(&q.active, p.index)
	case backingOff:
		heap.Remove(q.heapOf(p), p.index)
	case unschedulable, gated:
		if p.place == gated {
			q.gates--
		}
		q.waits(p, -1)
		delete(q.pool, p.UID)
		q.ungroup(p)
	case entering:
		last := len(q.doorstep) - 1
		q.doorstep[p.index] = q.doorstep[last]
		q.doorstep[p.index].index = p.index
		q.doorstep[last] = nil
		q.doorstep = q.doorstep[:last]
	case heldBack:
		last := len(q.heldBack) - 1
		q.heldBack[p.index] = q.heldBack[last]
		q.heldBack[p.index].index = p.index
		q.heldBack[last] = nil
		q.heldBack = q.heldBack[:last]
	}
	p.place = nowhere
}

// pop takes the next pod for an attempt; nil: none is ready. While nothing is
// active, pods that were refused need not wait for the end of their back-off
// (KEP-5142).
func (q *queue) pop(now time.Time) *podEntry {
	q.wake(now)
	var p *podEntry
	switch {
	case q.active.Len() > 0:
		p = heap.Pop(&q.active).(*podEntry)
	case q.backoff.Len() > 0:
		p = heap.Pop(&q.backoff).(*podEntry)
		q.came(queueActive, eventPopped)
	default:
		return nil
	}
	p.place = nowhere
	p.attempts++
	return p
}

// popActive takes the next active pod, of which there is one.
func (q *queue) popActive() *podEntry {
	p := heap.Pop(&q.active).(*podEntry)
	p.place = nowhere
	p.attempts++
	return p
}

// unpop puts an active pod back that was not tried after all.
func (q *queue) unpop(p *podEntry) {
	p.attempts--
	p.place = active
	heap.Push(&q.active, p)
}

// wake moves pods whose back-off ended to the active queue.
func (q *queue) wake(now time.Time) {
	for _, h := range []*podHeap{&q.backoff, &q.faulty} {
		if h.Len() > 0 && h.items[0].pod.ready.Sub(now) > q.max+window {
			q.rewind(h, now)
		}
		for h.Len() > 0 && !q.backsOff(h.items[0].pod, now) {
			p := heap.Pop(h).(*podEntry)
			if !p.admitted {
				p.place = nowhere
				q.add(p, entry{event: eventBackoffComplete}, now)
				continue
			}
			p.place = active
			heap.Push(&q.active, p)
			q.came(queueActive, eventBackoffComplete)
		}
	}
}

// rewind starts back-offs anew: the clock was set back.
func (q *queue) rewind(h *podHeap, now time.Time) {
	for i := range h.items {
		p := h.items[i].pod
		p.stamp, p.ready = now, time.Time{}
		q.backsOff(p, now)
		h.items[i] = p.turn()
	}
	heap.Init(h)
}

// park puts a pod that plugins refused into the pool.
func (q *queue) park(p *podEntry, f *framework.Failure, now time.Time) {
	p.failed = f
	p.refusals++
	p.faults = 0
	p.stamp, p.ready, p.flushed = now, time.Time{}, false
	p.place = unschedulable
	q.pool[p.UID] = p
	q.enroll(p)
	q.waits(p, 1)
	q.came(queueUnschedulable, eventAttemptFailed)
}

// gate puts a pod that was turned away before it was tried into the pool.
func (q *queue) gate(p *podEntry, f *framework.Failure) {
	p.failed = f
	p.place = gated
	q.gates++
	q.pool[p.UID] = p
	q.enroll(p)
	q.came(queueUnschedulable, p.entry.event)
}

// retry puts a pod whose attempt met an error into the back-off queue.
func (q *queue) retry(p *podEntry, now time.Time) {
	p.failed = nil
	p.faults++
	p.stamp, p.ready, p.flushed = now, time.Time{}, false
	q.add(p, entry{event: eventAttemptFailed}, now)
}

// hold puts a pod that nobody could say of whether it may be tried into the back-off
// queue, from which it comes to the entrance again.
func (q *queue) hold(p *podEntry, now time.Time) {
	p.failed = nil
	p.faults++
	p.stamp, p.ready, p.flushed = now, time.Time{}, false
	q.backsOff(p, now)
	p.admitted, p.place = false, backingOff
	heap.Push(&q.faulty, p)
	q.came(queueBackoff, eventAttemptFailed)
}

// flushStale brings back what has been in the pool for too long.
func (q *queue) flushStale(now time.Time) {
	for _, p := range q.pool {
		switch waits := now.Sub(p.stamp); {
		case waits < 0:
			p.stamp = now // the clock was set back
		case waits > q.flush:
			q.add(p, entry{event: eventTimeout}, now)
			p.flushed = true
		}
	}
}

// everything brings the whole pool back.
func (q *queue) everything(event string, now time.Time) {
	for _, p := range q.pool {
		q.add(p, entry{event: event}, now)
	}
}

// podHeap is a heap of entries that know their place in it.
type podHeap struct {
	items []turn
	less  func(a, b *turn) bool
}

// turn is a pod in a heap with what orders most of them. With ten thousand that wait,
// a look into each entry that one is compared with is a look into memory far away.
type turn struct {
	pod      *podEntry
	priority int32
	stamp    time.Time
}

func (p *podEntry) turn() turn { return turn{p, p.priority, p.stamp} }

func (h *podHeap) Len() int           { return len(h.items) }
func (h *podHeap) Less(i, j int) bool { return h.less(&h.items[i], &h.items[j]) }
func (h *podHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].pod.index, h.items[j].pod.index = i, j
}

// fix puts a pod of the heap where it belongs now.
func (h *podHeap) fix(p *podEntry) {
	h.items[p.index] = p.turn()
	heap.Fix(h, p.index)
}

func (h *podHeap) Push(x any) {
	p := x.(*podEntry)
	p.index = len(h.items)
	h.items = append(h.items, p.turn())
}

func (h *podHeap) Pop() any {
	last := len(h.items) - 1
	p := h.items[last].pod
	h.items[last] = turn{}
	h.items = h.items[:last]
	return p
}
