package hollow

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// A request of an older round of work comes before those of younger ones, whatever waited longer.
func TestShareServesTheOldestRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := newTurns(func() int { return 0 })
		s := newShare(1, rounds.of)
		if err := s.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		close(closed)
		rounds.next = closed
		old, young := rounds.wait(t.Context()), rounds.wait(t.Context())
		gone, leave := context.WithCancelCause(old)
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		request := func(name string, ctx context.Context) {
			wg.Go(func() {
				err := s.enter(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					name += ": " + err.Error()
				}
				order = append(order, name)
				if err == nil {
					s.leave()
				}
			})
			synctest.Wait()
		}
		request("young", young)
		request("heartbeat", t.Context())
		request("gone", gone)
		request("old", old)
		leave(errors.New("not wanted any more"))
		synctest.Wait()
		s.leave()
		wg.Wait()
		if want := []string{"gone: not wanted any more", "old", "young", "heartbeat"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		if s.free != 1 || len(s.waiting) != 0 {
			t.Errorf("%d places are free and %d wait, want 1 and none", s.free, len(s.waiting))
		}
	})
}

// noRound is for a share whose requests are served in their own order.
func noRound(context.Context) uint64 { return 0 }

// Places are neither lost nor doubled by requests that end while they get one.
func TestSharePlacesAreKept(t *testing.T) {
	const places = 3
	s := newShare(places, noRound)
	var at, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%3 == 0 {
				go cancel()
			}
			if s.enter(ctx) != nil {
				return
			}
			mu.Lock()
			at++
			most = max(most, at)
			mu.Unlock()
			mu.Lock()
			at--
			mu.Unlock()
			s.leave()
		})
	}
	wg.Wait()
	if most > places || s.free != places || len(s.waiting) != 0 {
		t.Errorf("%d at once, %d free and %d waiting in the end, want at most %d, %d and none", most, s.free, len(s.waiting), places, places)
	}
}
