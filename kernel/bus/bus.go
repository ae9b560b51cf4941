package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"pintle.dev/pintle/kernel/store"
)

// ErrClosed is returned by a subscription that was closed.
var ErrClosed = errors.New("subscription is closed")

// Config bounds what the bus keeps in memory.
type Config struct {
	// Recent is the number of latest events kept to start subscriptions from without asking the disk. Default 4096.
	Recent int
	// RecentBytes bounds the values of those events. Default 8 MiB.
	RecentBytes int
	// Buffer is the number of events that a subscription may have waiting. Default 1024.
	Buffer int
	// Logger receives who was dropped. Default: none.
	Logger *slog.Logger
}

// Source is what the bus needs of the store.
type Source interface {
	OnCommit(publish func(events []*store.Event))
	CurrentRevision() uint64
	CompactedRevision() uint64
	Replay(after, through uint64, wanted func(key string) bool, visit func(*store.Event) bool) (seen uint64, err error)
}

type set map[*Subscription]struct{}

// Bus is the fan-out. All methods may be called from many goroutines.
type Bus struct {
	cfg    Config
	source Source

	// Locks are taken in the order of the fields: index, a subscription's, recentMu.

	// index guards exact and prefix, which hold the subscriptions by key and by prefix, those of a prefix by topic
	// ("": all).
	index       sync.RWMutex
	exact       map[string]set
	prefix      map[string]map[string]set
	subscribers atomic.Int64

	// recentMu guards recent, to which an event is added before it is offered to any subscription, and the events that
	// a dispatcher has still to offer.
	recentMu    sync.RWMutex
	recent      ring
	pending     []*store.Event
	lost        bool
	dispatching bool

	// offered is the last revision published: everything up to it has been offered to the subscriptions.
	offered atomic.Uint64

	drops, replays atomic.Uint64
	dropped        dropped
}

// inline is the number of subscriptions up to which the store's writer offers its events itself. With more, a goroutine
// does it that ends when nothing is left to offer, so that a write does not wait for a thousand wake-ups.
const inline = 16

// New connects a bus to a store that does not run yet.
func New(cfg Config, source Source) (*Bus, error) {
	if source == nil {
		return nil, errors.New("bus: no store given")
	}
	if cfg.Recent <= 0 {
		cfg.Recent = 4096
	}
	if cfg.RecentBytes <= 0 {
		cfg.RecentBytes = 8 << 20
	}
	if cfg.Buffer <= 0 {
		cfg.Buffer = 1024
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bus{
		cfg:    cfg,
		source: source,
		exact:  map[string]set{},
		prefix: map[string]map[string]set{},
	}
	revision := source.CurrentRevision()
	b.offered.Store(revision)
	b.recent.init(cfg.Recent, cfg.RecentBytes, revision)
	source.OnCommit(b.publish)
	return b, nil
}

// Revision is the last published revision.
func (b *Bus) Revision() uint64 { return b.offered.Load() }

// restBytes is how much of the values of recent events stays during a rest: the events of some minutes in which little
// happens.
const restBytes = 1 << 20

// Detach lets go of the attachments of the recent events, as if they had been replayed from the history, and of the older
// of these events, which subscriptions that begin before them have from the disk.
func (b *Bus) Detach() {
	b.recentMu.Lock()
	defer b.recentMu.Unlock()
	b.recent.shrink(restBytes)
	b.recent.detach()
}

// Subscribers is the number of open subscriptions.
func (b *Bus) Subscribers() int { return int(b.subscribers.Load()) }

func (b *Bus) publish(events []*store.Event) {
	if len(events) == 0 {
		return
	}
	b.recentMu.Lock()
	for _, e := range events {
		b.recent.add(e)
	}
	alone := !b.dispatching
	if alone && b.subscribers.Load() <= inline {
		b.recentMu.Unlock()
		b.offer(events)
		return
	}
	if len(b.pending)+len(events) > b.cfg.Recent {
		// Offering cannot keep up: all fall behind, and take what they miss from the recent events or the history.
		b.pending, b.lost = nil, true
	}
	b.pending = append(b.pending, events...)
	b.dispatching = true
	b.recentMu.Unlock()
	if alone {
		go b.dispatch()
	}
}

// dispatch offers what is pending. At most one is under way, and none while the store's writer offers.
func (b *Bus) dispatch() {
	for {
		b.recentMu.Lock()
		events, lost := b.pending, b.lost
		b.pending, b.lost = nil, false
		if len(events) == 0 {
			b.dispatching = false
			b.recentMu.Unlock()
			return
		}
		b.recentMu.Unlock()
		if lost {
			b.each(func(s *Subscription) { s.fallBehind() })
		}
		b.offer(events)
	}
}

// offer looks up who wants the events. It has one caller at a time.
func (b *Bus) offer(events []*store.Event) {
	b.index.RLock()
	defer b.index.RUnlock()
	for _, e := range events {
		b.exact[e.Key].offer(e)
		if len(b.prefix) == 0 {
			continue
		}
		for i := 0; i < len(e.Key); i++ {
			if e.Key[i] != '/' {
				continue
			}
			topics := b.prefix[e.Key[:i+1]]
			switch {
			case len(topics) == 0:
			case e.Topics == nil:
				for _, subs := range topics {
					subs.offer(e)
				}
			default:
				topics[""].offer(e)
				for _, topic := range e.Topics {
					topics[topic].offer(e)
				}
			}
		}
	}
	b.offered.Store(events[len(events)-1].Revision)
}

// each calls visit with every subscription.
func (b *Bus) each(visit func(*Subscription)) {
	b.index.RLock()
	defer b.index.RUnlock()
	for _, subs := range b.exact {
		for s := range subs {
			visit(s)
		}
	}
	for _, topics := range b.prefix {
		for _, subs := range topics {
			for s := range subs {
				visit(s)
			}
		}
	}
}

func (subs set) offer(e *store.Event) {
	for s := range subs {
		s.offer(e)
	}
}

// Options say what a subscription sees.
type Options struct {
	// Key is the exact key, or with Recursive a prefix that ends in a slash.
	Key       string
	Recursive bool
	// Topic, with Recursive, leaves out the events that are known not to have it.
	Topic string
	// After is the revision after which events are wanted; one that is not there yet is waited for.
	After uint64
	// Buffer overrides Config.Buffer.
	Buffer int
	// Kind is what the subscription is counted under when it is dropped, such as a resource. There must be few.
	Kind string
	// Who names the subscriber in the log when it is dropped; nil for one that has no name. It is called with locks held.
	Who func() string
}

// Subscribe opens a subscription. Error: *store.CompactedError when the history after Options.After is gone.
func (b *Bus) Subscribe(o Options) (*Subscription, error) {
	if o.Recursive && !strings.HasSuffix(o.Key, "/") {
		return nil, fmt.Errorf("bus: prefix %q must end with a slash", o.Key)
	}
	if !o.Recursive {
		o.Topic = ""
	}
	if compacted := b.source.CompactedRevision(); o.After < compacted {
		return nil, &store.CompactedError{Requested: o.After, Compacted: compacted}
	}
	if o.Buffer <= 0 {
		o.Buffer = b.cfg.Buffer
	}
	s := &Subscription{bus: b, options: o, seen: o.After, behind: true, wake: make(chan struct{}, 1)}
	b.add(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	s.signal()
	return s, nil
}

func (b *Bus) add(s *Subscription) {
	b.index.Lock()
	defer b.index.Unlock()
	b.subscribers.Add(1)
	key, topic := s.options.Key, s.options.Topic
	if !s.options.Recursive {
		if b.exact[key] == nil {
			b.exact[key] = set{}
		}
		b.exact[key][s] = struct{}{}
		return
	}
	if b.prefix[key] == nil {
		b.prefix[key] = map[string]set{}
	}
	if b.prefix[key][topic] == nil {
		b.prefix[key][topic] = set{}
	}
	b.prefix[key][topic][s] = struct{}{}
}

func (b *Bus) remove(s *Subscription) {
	b.index.Lock()
	defer b.index.Unlock()
	b.subscribers.Add(-1)
	key, topic := s.options.Key, s.options.Topic
	if !s.options.Recursive {
		if delete(b.exact[key], s); len(b.exact[key]) == 0 {
			delete(b.exact, key)
		}
		return
	}
	if delete(b.prefix[key][topic], s); len(b.prefix[key][topic]) == 0 {
		delete(b.prefix[key], topic)
	}
	if len(b.prefix[key]) == 0 {
		delete(b.prefix, key)
	}
}
