package bus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"pintle.dev/pintle/kernel/store"
)

// Subscription is one subscriber's view of the bus. Wait, Take and Next are for one goroutine at a time; Close may be
// called from any.
type Subscription struct {
	bus     *Bus
	options Options
	wake    chan struct{}

	// mu guards the fields below.
	mu    sync.Mutex
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

// offer queues an event or lets the subscription fall behind.
func (s *Subscription) offer(e *store.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.behind:
	case e.Revision <= s.seen:
		return
	case len(s.queue) >= s.options.Buffer:
		// What waits is still taken in order; only what follows comes from the history.
		s.drop()
	default:
		s.queue = append(s.queue, e)
		s.seen = e.Revision
	}
	s.signal()
}

// fallBehind lets the subscription look for itself what it misses.
func (s *Subscription) fallBehind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.behind {
		s.drop()
	}
	s.signal()
}

// drop makes the subscription one that is behind. s.mu is held.
func (s *Subscription) drop() {
	s.behind = true
	s.bus.drops.Add(1)
	s.bus.dropped.note(s.bus.cfg.Logger, s, "a subscriber is slow: its events are dropped, and it reads them from the history when it comes back",
		"waiting", len(s.queue))
}

// catchUp brings a subscription that is behind up to date from the recent events, as far as the buffer takes. s.mu is
// held. It returns false when the history must be asked.
func (s *Subscription) catchUp() bool {
	if !s.behind {
		return true
	}
	s.bus.recentMu.RLock()
	defer s.bus.recentMu.RUnlock()
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
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, s.seen, ErrClosed
	}
	if len(s.queue) == 0 && s.behind && !s.catchUp() {
		after := s.seen
		s.mu.Unlock()
		return s.replay(after)
	}
	events, s.queue = s.queue, nil
	if s.behind {
		s.signal()
	} else {
		// Whatever was offered before is in events or was taken.
		s.seen = max(s.seen, s.bus.offered.Load())
	}
	progress = s.seen
	s.mu.Unlock()
	return events, progress, nil
}

// replay reads a buffer full of events from the history, up to what is committed: that may not have been published yet,
// and is not taken twice when it is. While it reads, the subscription is behind, so nobody else touches its queue or
// seen.
func (s *Subscription) replay(after uint64) (events []*store.Event, progress uint64, err error) {
	s.bus.replays.Add(1)
	progress, err = s.bus.source.Replay(after, max(after, s.bus.source.CurrentRevision()), s.wants, func(e *store.Event) bool {
		events = append(events, e)
		return len(events) < s.options.Buffer
	})
	if err != nil && len(events) == 0 {
		if errors.As(err, new(*store.CompactedError)) {
			s.bus.dropped.note(s.bus.cfg.Logger, s, "a subscriber was too slow: what it has not seen is compacted, and it must start anew", "after", after)
		}
		return nil, after, err
	}
	s.mu.Lock()
	s.seen = max(s.seen, progress)
	s.mu.Unlock()
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
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.queue = nil
	s.signal()
	s.mu.Unlock()
	if !closed {
		s.bus.remove(s)
	}
}
