package scheduler

import (
	"container/heap"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// place says where a pod is on its way.
type place uint8

const (
	nowhere       place = iota // bound, or being bound
	active                     // next to be scheduled
	backingOff                 // waits for its time
	unschedulable              // waits for an event
	gated                      // waits for its scheduling gates to go
	entering                   // plugins are to be asked before it enters
)

// podEntry is what the cycle keeps of a pod that has not ended.
type podEntry struct {
	uid       types.UID
	namespace string
	name      string
	pod       *v1.Pod // as last seen
	shape     *shape

	// On a node: its name, and whether the pod is only assumed there.
	node    string
	assumed bool
	// reserved: reserve plugins know of it and are to be told when it comes to
	// nothing.
	reserved bool
	// boundAt is when the API took the binding of an assumed pod.
	boundAt time.Time

	// began is when the attempt under way began; zero: none is, or it was counted.
	began time.Time

	// In the queue.
	place    place
	index    int // in the heap of its place
	priority int32
	since    time.Time // entered the queue first
	attempts int
	ready    time.Time // back-off ends
	parked   time.Time // entered the unschedulable pool
	failed   failure   // what the last attempt failed on
	key      sortKey   // where plugins order the queue
	keyed    bool      // key is the plugin's
	admitted bool      // plugins let it in

	// told is the last condition message written for the pod.
	told string
}

// failure is what can bring a pod back: the kinds of objects and the scopes of
// the predicates that some node failed on.
type failure struct {
	cluster bool            // a predicate of cluster scope took part
	kinds   map[string]bool // kinds that those predicates read
	// arrivals: a new pod may help; a plugin may have been waiting for it.
	arrivals bool
}

// queue holds the pods that wait: by priority and then by time in the active
// queue, by time in the back-off queue, in no order in the pool.
type queue struct {
	initial, max, flush time.Duration

	active  podHeap
	backoff podHeap
	pool    map[types.UID]*podEntry
	gated   map[types.UID]*podEntry

	// doorstep holds the pods about which plugins are to be asked before they
	// enter, where there are such plugins (entering); sorted: plugins say where.
	doorstep         []*podEntry
	entering, sorted bool
}

func newQueue(c *Config) *queue {
	q := &queue{
		initial: c.BackoffInitial, max: c.BackoffMax, flush: c.UnschedulableFlush,
		backoff: podHeap{less: func(a, b *podEntry) bool { return a.ready.Before(b.ready) }},
		pool:    map[types.UID]*podEntry{},
		gated:   map[types.UID]*podEntry{},
	}
	q.active.less = q.before
	return q
}

// add takes a pod that is new or changed so that it may fit now.
func (q *queue) add(p *podEntry, now time.Time) {
	q.remove(p)
	if p.since.IsZero() {
		p.since = now
	}
	p.priority = 0
	if p.pod.Spec.Priority != nil {
		p.priority = *p.pod.Spec.Priority
	}
	switch {
	case len(p.pod.Spec.SchedulingGates) > 0:
		p.place = gated
		q.gated[p.uid] = p
	case q.entering:
		p.admitted = false
		p.place, p.index = entering, len(q.doorstep)
		q.doorstep = append(q.doorstep, p)
	default:
		q.admit(p, now)
	}
}

// remove takes a pod out, wherever it waits.
func (q *queue) remove(p *podEntry) {
	switch p.place {
	case active:
		heap.Remove(&q.active, p.index)
	case backingOff:
		heap.Remove(&q.backoff, p.index)
	case unschedulable:
		delete(q.pool, p.uid)
	case gated:
		delete(q.gated, p.uid)
	case entering:
		last := len(q.doorstep) - 1
		q.doorstep[p.index] = q.doorstep[last]
		q.doorstep[p.index].index = p.index
		q.doorstep = q.doorstep[:last]
	}
	p.place = nowhere
}

// pop takes the next pod for an attempt; nil: none is ready.
func (q *queue) pop(now time.Time) *podEntry {
	q.wake(now)
	if q.active.Len() == 0 {
		return nil
	}
	p := heap.Pop(&q.active).(*podEntry)
	p.place = nowhere
	p.attempts++
	return p
}

// wake moves pods whose back-off ended to the active queue.
func (q *queue) wake(now time.Time) {
	for q.backoff.Len() > 0 && !q.backoff.items[0].ready.After(now) {
		p := heap.Pop(&q.backoff).(*podEntry)
		p.place = nowhere
		if q.entering && !p.admitted {
			q.add(p, now)
			continue
		}
		p.place = active
		heap.Push(&q.active, p)
	}
}

// park puts a pod that fits nowhere into the pool.
func (q *queue) park(p *podEntry, f failure, now time.Time) {
	p.failed = f
	p.parked = now
	p.ready = now.Add(q.delay(p.attempts))
	p.place = unschedulable
	q.pool[p.uid] = p
}

// retry puts a pod whose attempt met an error into the back-off queue.
func (q *queue) retry(p *podEntry, now time.Time) {
	p.ready = now.Add(q.delay(p.attempts))
	p.place = backingOff
	heap.Push(&q.backoff, p)
}

// delay doubles with each attempt from initial up to max.
func (q *queue) delay(attempts int) time.Duration {
	d := q.initial
	for i := 1; i < attempts && d < q.max; i++ {
		d *= 2
	}
	return min(d, q.max)
}

// release brings back the pods of the pool that an event can help. A pod whose
// back-off runs still waits for its end.
func (q *queue) release(now time.Time, helps func(failure) bool) {
	for _, p := range q.pool {
		if helps == nil || helps(p.failed) {
			q.add(p, now)
		}
	}
}

// flushStale brings back what has been in the pool for too long.
func (q *queue) flushStale(now time.Time) {
	for _, p := range q.pool {
		if !p.parked.Add(q.flush).After(now) {
			q.add(p, now)
		}
	}
}

// next is when the first back-off ends; false: none runs.
func (q *queue) next() (time.Time, bool) {
	if q.backoff.Len() == 0 {
		return time.Time{}, false
	}
	return q.backoff.items[0].ready, true
}

// podHeap is a heap of entries that know their place in it.
type podHeap struct {
	items []*podEntry
	less  func(a, b *podEntry) bool
}

func (h *podHeap) Len() int           { return len(h.items) }
func (h *podHeap) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }
func (h *podHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}

func (h *podHeap) Push(x any) {
	p := x.(*podEntry)
	p.index = len(h.items)
	h.items = append(h.items, p)
}

func (h *podHeap) Pop() any {
	last := len(h.items) - 1
	p := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return p
}
