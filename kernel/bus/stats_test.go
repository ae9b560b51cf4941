package bus

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"pintle.dev/pintle/kernel/store"
)

// TestStats: the figures follow a subscriber that is slow, falls back to the history and catches up.
func TestStats(t *testing.T) {
	source := &replayed{}
	b, err := New(Config{Buffer: 2, Recent: 1}, source)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := b.Subscribe(Options{Key: "/a/", Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	idle, err := b.Subscribe(Options{Key: "/b"})
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	for range 5 {
		source.commit("/a/x")
	}
	got := b.Stats()
	want := Stats{Revision: 5, Subscribers: 2, Behind: 1, Queued: 2, MaxQueued: 2, Lag: 5, Drops: 1}
	if got != want {
		t.Errorf("behind: %+v, want %+v", got, want)
	}
	for i := 0; b.Stats().Lag > 0; i++ {
		if _, _, err := slow.Take(); err != nil || i > 10 {
			t.Fatal(i, err, b.Stats())
		}
	}
	got = b.Stats()
	if got.Behind != 0 || got.Queued != 0 || got.Replays == 0 || got.Drops != 1 {
		t.Errorf("caught up: %+v", got)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b.Collector())
	if families, err := registry.Gather(); err != nil || len(families) != 8 {
		t.Errorf("%d families of metrics: %v", len(families), err)
	}
}

// replayed is a store in memory.
type replayed struct {
	publish func([]*store.Event)
	events  []*store.Event
}

func (h *replayed) OnCommit(publish func([]*store.Event)) { h.publish = publish }
func (h *replayed) CurrentRevision() uint64               { return uint64(len(h.events)) }
func (h *replayed) CompactedRevision() uint64             { return 0 }

func (h *replayed) commit(key string) {
	e := &store.Event{Revision: h.CurrentRevision() + 1, Type: store.Updated, Key: key, Value: []byte(fmt.Sprint(len(h.events)))}
	h.events = append(h.events, e)
	h.publish([]*store.Event{e})
}

func (h *replayed) Replay(after, through uint64, wanted func(string) bool, visit func(*store.Event) bool) (uint64, error) {
	for _, e := range h.events[after:through] {
		if wanted(e.Key) && !visit(e) {
			return e.Revision, nil
		}
	}
	return through, nil
}
