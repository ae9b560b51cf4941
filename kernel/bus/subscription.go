package bus

import (
	"context"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/store"
)

// Subscription is one subscriber's view of the bus. Wait, Take and Next are for one goroutine at a time; Close may be
// called from any.
type Subscription struct {
	bus     *Bus
	options Options
	wake    chan struct{}

	// The fields below are guarded by bus.mu.
	queue []*store.Event
	// seen is the revision up to which the subscriber has taken everything, or has it in queue when not behind.
	seen uint64
	// behind: queue lacks events, the history must be asked.
	behind bool
	closed bool
}

func (s *Subscription) wants(key string) bool {
	if s.options.Recursive {
		return strings.HasPrefix(key, s.options.Key)
	}
	return key == s.options.Key
}

// wantsEvent also leaves out other topics, where they are known.
func (s *Subscription) wantsEvent(e *store.Event) bool {
	return s.wants(e.Key) && (s.options.Topic == "" || e.Topics == nil || slices.Contains(e.Topics, s.options.Topic))
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// offer queues an event or lets the subscription fall behind. bus.mu is held.
func (s *Subscription) offer(e *store.Event) {
	if s.behind {
		s.signal()
		return
	}
	if e.Revision <= s.seen {
		return
	}
	if len(s.queue) >= s.options.Buffer {
		// What waits is still taken in order; only what follows comes from the history.
		s.behind = true
		s.bus.drops.Add(1)
		s.signal()
		return
	}
	s.queue = append(s.queue, e)
	s.seen = e.Revision
	s.signal()
}

// catchUp brings a subscription that is behind up to date from the recent events, as far as the buffer takes. bus.mu
// is held. It returns false when the history must be asked.
func (s *Subscription) catchUp() bool {
	if !s.behind {
		return true
	}
	full := false
	ok := s.bus.recent.after(s.seen, func(e *store.Event) bool {
		if !s.wantsEvent(e) {
			s.seen = e.Revision
			return true
		}
		if len(s.queue) >= s.options.Buffer {
			full = true
			return false
		}
		s.queue = append(s.queue, e)
		s.seen = e.Revision
		return true
	})
	if ok && !full {
		s.behind = false
	}
	return ok
}

// Wake receives a value when there may be something to Take.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Take returns the events that wait, perhaps none, and the revision up to which nothing is missing after them. When
// more is known to wait, the subscription is woken again. Errors: *store.CompactedError when the history that the
// subscriber has not seen is gone, ErrClosed, or what reading the history met.
func (s *Subscription) Take() (events []*store.Event, progress uint64, err error) {
	b := s.bus
	b.mu.Lock()
	if s.closed {
		b.mu.Unlock()
		return nil, s.seen, ErrClosed
	}
	if len(s.queue) == 0 && s.behind && !s.catchUp() {
		after := s.seen
		b.mu.Unlock()
		return s.replay(after)
	}
	events, s.queue = s.queue, nil
	if s.behind {
		s.signal()
	} else {
		s.seen = max(s.seen, b.revision)
	}
	progress = s.seen
	b.mu.Unlock()
	return events, progress, nil
}

// replay reads a buffer full of events from the history. While it does, the subscription is behind, so nobody else
// touches its queue or seen.
func (s *Subscription) replay(after uint64) (events []*store.Event, progress uint64, err error) {
	s.bus.replays.Add(1)
	progress, err = s.bus.source.Replay(after, s.bus.Revision(), s.wants, func(e *store.Event) bool {
		events = append(events, e)
		return len(events) < s.options.Buffer
	})
	if err != nil && len(events) == 0 {
		return nil, after, err
	}
	s.bus.mu.Lock()
	s.seen = max(s.seen, progress)
	s.bus.mu.Unlock()
	s.signal()
	return events, progress, nil
}

// Next waits for events. It returns none with a nil error never. Errors: as Take, or ctx's.
func (s *Subscription) Next(ctx context.Context) ([]*store.Event, error) {
	for {
		events, _, err := s.Take()
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.wake:
		}
	}
}

// Close ends the subscription and frees what waits for it.
func (s *Subscription) Close() {
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.queue = nil
	b.remove(s)
	s.signal()
}
