package bus

import (
	"errors"
	"fmt"
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

	mu sync.Mutex
	// revision is the last one published: everything up to it has been handed to the subscriptions.
	revision uint64
	// exact and prefix hold the subscriptions by key and by prefix, those of a prefix by topic ("": all).
	exact  map[string]set
	prefix map[string]map[string]set
	recent ring

	drops, replays atomic.Uint64
}

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
	b := &Bus{
		cfg:      cfg,
		source:   source,
		revision: source.CurrentRevision(),
		exact:    map[string]set{},
		prefix:   map[string]map[string]set{},
	}
	b.recent.init(cfg.Recent, cfg.RecentBytes, b.revision)
	source.OnCommit(b.publish)
	return b, nil
}

// Revision is the last published revision.
func (b *Bus) Revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision
}

// Subscribers is the number of open subscriptions.
func (b *Bus) Subscribers() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, subs := range b.exact {
		n += len(subs)
	}
	for _, topics := range b.prefix {
		for _, subs := range topics {
			n += len(subs)
		}
	}
	return n
}

func (b *Bus) publish(events []*store.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		b.recent.add(e)
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
	if n := len(events); n > 0 {
		b.revision = events[n-1].Revision
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
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(s)
	s.catchUp()
	s.signal()
	return s, nil
}

// add and remove change the index; b.mu is held.
func (b *Bus) add(s *Subscription) {
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
