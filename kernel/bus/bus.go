package bus

import (
	"errors"
	"fmt"
	"strings"
	"sync"

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

// Bus is the fan-out. All methods may be called from many goroutines.
type Bus struct {
	cfg    Config
	source Source

	mu sync.Mutex
	// revision is the last one published: everything up to it has been handed to the subscriptions.
	revision uint64
	// exact and prefix hold the subscriptions by key and by prefix.
	exact, prefix map[string]map[*Subscription]struct{}
	recent        ring
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
		exact:    map[string]map[*Subscription]struct{}{},
		prefix:   map[string]map[*Subscription]struct{}{},
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
	for _, m := range []map[string]map[*Subscription]struct{}{b.exact, b.prefix} {
		for _, subs := range m {
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
		for s := range b.exact[e.Key] {
			s.offer(e)
		}
		if len(b.prefix) == 0 {
			continue
		}
		for i := 0; i < len(e.Key); i++ {
			if e.Key[i] == '/' {
				for s := range b.prefix[e.Key[:i+1]] {
					s.offer(e)
				}
			}
		}
	}
	if n := len(events); n > 0 {
		b.revision = events[n-1].Revision
	}
}

// Options say what a subscription sees.
type Options struct {
	// Key is the exact key, or with Recursive a prefix that ends in a slash.
	Key       string
	Recursive bool
	// After is the revision after which events are wanted, at most the current one for a live start; a later one is
	// waited for.
	After uint64
	// Buffer overrides Config.Buffer.
	Buffer int
}

// Subscribe opens a subscription. Error: *store.CompactedError when the history after Options.After is gone.
func (b *Bus) Subscribe(o Options) (*Subscription, error) {
	if o.Recursive && !strings.HasSuffix(o.Key, "/") {
		return nil, fmt.Errorf("bus: prefix %q must end with a slash", o.Key)
	}
	if compacted := b.source.CompactedRevision(); o.After < compacted {
		return nil, &store.CompactedError{Requested: o.After, Compacted: compacted}
	}
	if o.Buffer <= 0 {
		o.Buffer = b.cfg.Buffer
	}
	s := &Subscription{bus: b, options: o, seen: o.After, behind: true, wake: make(chan struct{}, 1)}
	index := b.exact
	if o.Recursive {
		index = b.prefix
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if index[o.Key] == nil {
		index[o.Key] = map[*Subscription]struct{}{}
	}
	index[o.Key][s] = struct{}{}
	s.catchUp()
	s.signal()
	return s, nil
}
