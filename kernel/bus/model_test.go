package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/store"
)

// Subscribers that come and go, are quick or slow, want all, a part or one key, on a bus with small buffers, across a
// restart and with compaction behind them: each is handed every revision of its keys after the one it started from,
// once and in order, or is told that compaction was quicker. The model is the history itself.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &history{}
	cfg := Config{Recent: 64, Buffer: 8}
	const last = 4000
	from := make([]uint64, 60)
	for i := range from {
		from[i] = 1
	}
	expired := 0
	for run := range 2 {
		b, err := New(cfg, h)
		if err != nil {
			t.Fatal(err)
		}
		// The first run ends in the middle of things: who was there goes on after the restart where he had been.
		through := uint64(last * (run + 1) / 2)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		var subscribers, writer sync.WaitGroup
		var mu sync.Mutex
		for i := range from {
			subscribers.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(100*run+i)))
				var times int
				from[i], times = modelSubscriber(ctx, t, b, h, r, i, from[i], through)
				mu.Lock()
				expired += times
				mu.Unlock()
			})
		}
		writer.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(run)))
			for h.CurrentRevision() < through {
				group := make([]string, 1+r.IntN(int(min(20, through-h.CurrentRevision()))))
				for j := range group {
					group[j] = fmt.Sprintf("/r/%d/k%d#n=%d", r.IntN(3), r.IntN(4), r.IntN(3))
				}
				h.commit(group...)
				if r.IntN(20) == 0 && h.CurrentRevision() > 500 {
					h.mu.Lock()
					h.compacted = uint64(len(h.events)) + 1 - uint64(200+r.IntN(200))
					h.mu.Unlock()
				}
				if r.IntN(4) == 0 {
					runtime.Gosched()
				}
			}
		})
		writer.Wait()
		subscribers.Wait()
		cancel()
		if st := b.Stats(); st.Subscribers != 0 || st.Revision != through {
			t.Errorf("at the end: %+v, want revision %d", st, through)
		}
	}
	t.Logf("%d subscribers were overtaken by compaction, %d replays", expired, h.replays)
	if h.replays == 0 {
		t.Error("nobody was slow")
	}
}

// modelSubscriber takes events until it has seen a revision, and says how far it came and how often it was overtaken.
func modelSubscriber(ctx context.Context, t *testing.T, b *Bus, h *history, r *rand.Rand, n int, after, through uint64) (seen uint64, expired int) {
	o := [...]Options{
		{Key: "/r/", Recursive: true}, {Key: "/r/1/", Recursive: true}, {Key: "/r/2/k3"},
		{Key: "/r/", Recursive: true, Topic: "n=1"}, {Key: "/", Recursive: true}, {Key: "/other/", Recursive: true},
	}[n%6]
	pace := n % 4
	for seen = after; seen < through; {
		o.After, o.Buffer = seen, r.IntN(3)*4
		s, err := b.Subscribe(o)
		if compacted := (*store.CompactedError)(nil); errors.As(err, &compacted) {
			seen = compacted.Compacted
			expired++
			continue
		}
		if err != nil {
			t.Error(err)
			return seen, expired
		}
		for stay := 1 + r.IntN(200); stay > 0 && seen < through; stay-- {
			events, progress, err := s.Take()
			if compacted := (*store.CompactedError)(nil); errors.As(err, &compacted) {
				if seen >= compacted.Compacted {
					t.Errorf("subscriber %d: told that %d is compacted, it is at %d", n, compacted.Compacted, seen)
				}
				seen = compacted.Compacted
				expired++
				break
			}
			if err != nil {
				t.Errorf("subscriber %d: %v", n, err)
				s.Close()
				return through, expired
			}
			if !h.agrees(t, n, o, seen, progress, events) {
				s.Close()
				return through, expired
			}
			seen = max(seen, progress)
			if len(events) == 0 && seen < through {
				select {
				case <-s.Wake():
				case <-time.After(time.Millisecond): // the writer may be done with what this one wants
				case <-ctx.Done():
					t.Errorf("subscriber %d: stopped at %d of %d", n, seen, through)
					s.Close()
					return through, expired
				}
			}
			for range pace * pace * 20 {
				runtime.Gosched()
			}
		}
		s.Close()
	}
	return seen, expired
}

// agrees compares what was taken with the history between two revisions. Replayed events do not know their topics, so
// those of other topics may be among them.
func (h *history) agrees(t *testing.T, n int, o Options, after, through uint64, got []*store.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events[min(int(after)-1, len(h.events)):min(int(through)-1, len(h.events))] {
		wanted := e.Key == o.Key || o.Recursive && strings.HasPrefix(e.Key, o.Key)
		switch {
		case len(got) > 0 && got[0].Revision == e.Revision && wanted && got[0].Key == e.Key:
			got = got[1:]
		case wanted && (o.Topic == "" || e.Topics[0] == o.Topic):
			t.Errorf("subscriber %d (%+v): from %d to %d without %s@%d", n, o, after, through, e.Key, e.Revision)
			return false
		}
	}
	if len(got) > 0 {
		t.Errorf("subscriber %d (%+v): from %d to %d came %d more, the first %s@%d", n, o, after, through, len(got), got[0].Key, got[0].Revision)
	}
	return len(got) == 0
}

// Publishing to many goes on while nobody is there to take, and a write does not wait for it.
func TestManySubscribers(t *testing.T) {
	b, h := newBus(t, Config{Recent: 16, Buffer: 4})
	const subscribers, writes = 500, 200
	var subs []*Subscription
	for range subscribers {
		subs = append(subs, subscribe(t, b, Options{Key: "/", Recursive: true, After: 1}))
	}
	for range writes {
		h.commit("/k")
	}
	for i, s := range subs {
		n := uint64(1)
		for n < writes+1 {
			events, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if n++; e.Revision != n {
					t.Fatalf("subscriber %d: revision %d, want %d", i, e.Revision, n)
				}
			}
		}
	}
	for b.Revision() != writes+1 {
		runtime.Gosched()
	}
	if st := b.Stats(); st.Subscribers != subscribers || st.Queued != 0 || st.Lag != 0 || st.Behind != 0 && st.Drops == 0 {
		t.Errorf("%+v", st)
	}
}
