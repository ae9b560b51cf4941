package bus

import "pintle.dev/pintle/kernel/store"

// ring keeps the latest events, bounded by number and by bytes.
type ring struct {
	events   []*store.Event
	start, n int
	bytes    int
	maxBytes int
	// complete is the revision after which the ring holds every event.
	complete uint64
}

func (r *ring) init(size, maxBytes int, revision uint64) {
	r.events = make([]*store.Event, size)
	r.maxBytes = maxBytes
	r.complete = revision
}

func (r *ring) add(e *store.Event) {
	for r.n == len(r.events) || r.n > 0 && r.bytes+len(e.Value) > r.maxBytes {
		r.drop()
	}
	r.events[(r.start+r.n)%len(r.events)] = e
	r.n++
	r.bytes += len(e.Value)
}

func (r *ring) drop() {
	e := r.events[r.start]
	r.events[r.start] = nil
	r.start = (r.start + 1) % len(r.events)
	r.n--
	r.bytes -= len(e.Value)
	r.complete = e.Revision
}

// detach puts events without attachments in the place of those that have one. Who has the former keeps them.
func (r *ring) detach() {
	for i := range r.n {
		at := &r.events[(r.start+i)%len(r.events)]
		if (*at).Attachment != nil {
			plain := **at
			plain.Attachment = nil
			*at = &plain
		}
	}
}

// shrink drops the oldest events until the values of the others have so many bytes at most.
func (r *ring) shrink(bytes int) {
	for r.n > 0 && r.bytes > bytes {
		r.drop()
	}
}

// after visits the events above a revision, oldest first, until visit returns false. ok is false when the ring no
// longer holds them all.
func (r *ring) after(revision uint64, visit func(*store.Event) bool) (ok bool) {
	if revision < r.complete {
		return false
	}
	// Binary search for the first event above revision.
	lo, hi := 0, r.n
	for lo < hi {
		mid := (lo + hi) / 2
		if r.events[(r.start+mid)%len(r.events)].Revision > revision {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	for i := lo; i < r.n; i++ {
		if !visit(r.events[(r.start+i)%len(r.events)]) {
			break
		}
	}
	return true
}
