package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pintle.dev/pintle/kernel/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// history is a Source in memory.
type history struct {
	mu        sync.Mutex
	publish   func([]*store.Event)
	events    []*store.Event
	compacted uint64
	replays   int
}

func (h *history) OnCommit(publish func([]*store.Event)) { h.publish = publish }

func (h *history) CurrentRevision() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return uint64(len(h.events)) + 1
}

func (h *history) CompactedRevision() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.compacted
}

func (h *history) Replay(after, through uint64, wanted func(string) bool, visit func(*store.Event) bool) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replays++
	if after < h.compacted {
		return after, &store.CompactedError{Requested: after, Compacted: h.compacted}
	}
	for _, e := range h.events {
		if e.Revision <= after || e.Revision > through || !wanted(e.Key) {
			continue
		}
		replayed := *e
		replayed.Topics, replayed.Attachment = nil, nil
		if !visit(&replayed) {
			return e.Revision, nil
		}
	}
	return through, nil
}

// commit makes events of the next revisions, one a key, as one group. "key#topic" has a topic.
func (h *history) commit(keys ...string) {
	h.mu.Lock()
	var group []*store.Event
	for _, key := range keys {
		key, topic, ok := strings.Cut(key, "#")
		e := &store.Event{Revision: uint64(len(h.events)) + 2, Key: key}
		if ok {
			e.Topics = []string{topic}
		}
		h.events = append(h.events, e)
		group = append(group, e)
	}
	h.mu.Unlock()
	h.publish(group)
}

func newBus(t *testing.T, cfg Config) (*Bus, *history) {
	t.Helper()
	h := &history{}
	b, err := New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	return b, h
}

func subscribe(t *testing.T, b *Bus, o Options) *Subscription {
	t.Helper()
	s, err := b.Subscribe(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// drain takes until the subscription has caught up.
func drain(t *testing.T, s *Subscription, through uint64) string {
	t.Helper()
	var out []string
	for range 10_000 {
		events, progress, err := s.Take()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			out = append(out, fmt.Sprintf("%s@%d", e.Key, e.Revision))
		}
		if len(events) == 0 && progress >= through {
			return strings.Join(out, " ")
		}
	}
	t.Fatalf("never caught up with %d", through)
	return ""
}

// Recent events that are let go of their attachments are new events: who has them keeps what there was.
func TestDetach(t *testing.T) {
	b, h := newBus(t, Config{Recent: 2})
	h.commit("/a/1", "/a/2", "/a/3")
	for _, e := range h.events {
		e.Attachment = e.Key
	}
	early := subscribe(t, b, Options{Key: "/a/", Recursive: true, After: 2})
	b.Detach()
	late := subscribe(t, b, Options{Key: "/a/", Recursive: true, After: 2})
	for want, s := range map[bool]*Subscription{true: early, false: late} {
		events, progress, err := s.Take()
		if err != nil || len(events) != 2 || progress != 4 {
			t.Fatal(events, progress, err)
		}
		for i, e := range events {
			if (e.Attachment != nil) != want || e.Key != h.events[i+1].Key || e.Revision != h.events[i+1].Revision {
				t.Errorf("got %+v", e)
			}
		}
	}
}

// Of many bytes of recent events the latest stay, and who begins before them is told that these are not all.
func TestShrink(t *testing.T) {
	var r ring
	r.init(16, 8<<20, 1)
	for revision := range uint64(8) {
		r.add(&store.Event{Revision: revision + 2, Value: make([]byte, 300<<10)})
	}
	revisions := func(after uint64) (all []uint64, ok bool) {
		ok = r.after(after, func(e *store.Event) bool { all = append(all, e.Revision); return true })
		return all, ok
	}
	for _, tt := range []struct {
		bytes int
		want  []uint64
	}{{8 << 20, []uint64{2, 3, 4, 5, 6, 7, 8, 9}}, {restBytes, []uint64{7, 8, 9}}, {restBytes, []uint64{7, 8, 9}}, {0, nil}} {
		r.shrink(tt.bytes)
		first := 9 - uint64(len(tt.want))
		if got, ok := revisions(first); !ok || !slices.Equal(got, tt.want) || r.bytes != len(tt.want)*300<<10 {
			t.Errorf("%d bytes: %v, %v, %d bytes; want %v", tt.bytes, got, ok, r.bytes, tt.want)
		}
		if _, ok := revisions(first - 1); ok {
			t.Errorf("%d bytes: events after revision %d are said to be all", tt.bytes, first-1)
		}
	}
	r.add(&store.Event{Revision: 10})
	if got, ok := revisions(9); !ok || !slices.Equal(got, []uint64{10}) {
		t.Errorf("the next: %v, %v", got, ok)
	}
}

func TestWhoSeesWhat(t *testing.T) {
	b, h := newBus(t, Config{})
	h.commit("/r/pods/a/x", "/r/nodes/n") // 2, 3
	for _, tt := range []struct {
		name    string
		options Options
		want    string
	}{
		{"prefix from the start", Options{Key: "/r/pods/", Recursive: true, After: 1}, "/r/pods/a/x@2 /r/pods/a/y@4 /r/pods/b/z@5"},
		{"prefix from now", Options{Key: "/r/pods/", Recursive: true, After: 3}, "/r/pods/a/y@4 /r/pods/b/z@5"},
		{"deeper prefix", Options{Key: "/r/pods/a/", Recursive: true, After: 1}, "/r/pods/a/x@2 /r/pods/a/y@4"},
		{"key", Options{Key: "/r/pods/b/z", After: 1}, "/r/pods/b/z@5"},
		{"key is no prefix", Options{Key: "/r/pods", After: 1}, ""},
		{"topic", Options{Key: "/r/pods/", Recursive: true, Topic: "n=1", After: 1}, "/r/pods/a/x@2 /r/pods/a/y@4"},
		{"from the future", Options{Key: "/r/pods/", Recursive: true, After: 4}, "/r/pods/b/z@5"},
	} {
		defer func(s *Subscription) {
			if got := drain(t, s, 5); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
		}(subscribe(t, b, tt.options))
	}
	h.commit("/r/pods/a/y#n=1", "/r/pods/b/z#n=2") // 4, 5
	if got := b.Subscribers(); got != 7 {
		t.Errorf("%d subscribers", got)
	}
}

func TestSlowSubscriberIsReplayed(t *testing.T) {
	b, h := newBus(t, Config{Recent: 8, Buffer: 4})
	s := subscribe(t, b, Options{Key: "/", Recursive: true, After: 1})
	var want []string
	for i := range 100 {
		key := fmt.Sprintf("/k%d", i)
		h.commit(key)
		want = append(want, fmt.Sprintf("%s@%d", key, i+2))
	}
	if len(s.queue) > 4 {
		t.Errorf("%d events wait for a buffer of 4", len(s.queue))
	}
	if got := drain(t, s, 101); got != strings.Join(want, " ") {
		t.Errorf("got %s", got)
	}
	if h.replays == 0 {
		t.Error("the history was not asked")
	}
	h.commit("/live")
	if got := drain(t, s, 102); got != "/live@102" {
		t.Errorf("after catching up: %s", got)
	}
}

func TestCompactionOvertakesASlowSubscriber(t *testing.T) {
	b, h := newBus(t, Config{Recent: 2, Buffer: 2})
	s := subscribe(t, b, Options{Key: "/", Recursive: true, After: 1})
	for i := range 20 {
		h.commit(fmt.Sprint("/k", i))
	}
	h.mu.Lock()
	h.compacted = 15
	h.mu.Unlock()
	var compacted *store.CompactedError
	for {
		events, _, err := s.Take()
		if err != nil {
			if !errors.As(err, &compacted) {
				t.Errorf("got %v", err)
			}
			break
		}
		for _, e := range events {
			if e.Revision > 3 {
				t.Fatalf("revision %d came after a gap", e.Revision)
			}
		}
	}
	if _, err := b.Subscribe(Options{Key: "/", Recursive: true, After: 14}); !errors.As(err, &compacted) {
		t.Errorf("subscribing below: %v", err)
	}
	if _, err := b.Subscribe(Options{Key: "/k", Recursive: true}); err == nil {
		t.Error("a prefix without a slash was taken")
	}
}

// Subscribers of all speeds that come at any time see every event once and in order, over the real store.
func TestEveryEventOnceAndInOrder(t *testing.T) {
	st, err := store.Open(store.Config{Dir: t.TempDir(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Recent: 32, Buffer: 16}, st)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()

	const writers, writes, subscribers = 8, 100, 12
	const last = writers*writes + 1
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				if _, err := st.Commit(ctx, store.Write{Key: fmt.Sprintf("/k/%d/%d", w, i), Value: []byte("v")}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range subscribers {
		wg.Go(func() {
			after := min(b.Revision(), uint64(1+n*20))
			s, err := b.Subscribe(Options{Key: "/k/", Recursive: true, After: after})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			slow := n%3 == 0
			for seen := after; seen < last; {
				events, err := s.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range events {
					if e.Revision != seen+1 {
						t.Errorf("subscriber %d: revision %d after %d", n, e.Revision, seen)
						return
					}
					seen = e.Revision
				}
				if slow {
					time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // being slow is what is tested
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if err := errors.Join(<-done, st.Close()); err != nil {
		t.Error(err)
	}
}

func TestClosedSubscription(t *testing.T) {
	b, h := newBus(t, Config{})
	s := subscribe(t, b, Options{Key: "/", Recursive: true, After: 1})
	s.Close()
	s.Close()
	h.commit("/a")
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if b.Subscribers() != 0 || len(b.prefix) != 0 {
		t.Error("the bus still knows it")
	}
}

func TestRing(t *testing.T) {
	var r ring
	r.init(4, 10, 1)
	for i := range 6 {
		r.add(&store.Event{Revision: uint64(i + 2), Value: make([]byte, 1)})
	}
	collect := func(after uint64) (got []uint64, ok bool) {
		ok = r.after(after, func(e *store.Event) bool { got = append(got, e.Revision); return true })
		return got, ok
	}
	if _, ok := collect(2); ok {
		t.Error("the ring gave a start that it has dropped")
	}
	if got, ok := collect(3); !ok || !slices.Equal(got, []uint64{4, 5, 6, 7}) {
		t.Errorf("after 3: %v, %v", got, ok)
	}
	r.add(&store.Event{Revision: 8, Value: make([]byte, 9)})
	if got, ok := collect(6); !ok || !slices.Equal(got, []uint64{7, 8}) {
		t.Errorf("bounded by bytes: %v, %v", got, ok)
	}
}

// An event costs what its subscribers cost, not what all subscribers cost.
func BenchmarkPublish(b *testing.B) {
	h := &history{}
	bus, err := New(Config{}, h)
	if err != nil {
		b.Fatal(err)
	}
	for n := range 1000 {
		s, err := bus.Subscribe(Options{Key: "/registry/pods/", Recursive: true, Topic: fmt.Sprintf("spec.nodeName=n%d", n), After: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
	}
	e := &store.Event{Key: "/registry/pods/ns/p", Topics: []string{"spec.nodeName=n5"}, Value: make([]byte, 1000)}
	b.ReportAllocs()
	for i := range b.N {
		e.Revision = uint64(i + 2)
		bus.publish([]*store.Event{e})
	}
}
