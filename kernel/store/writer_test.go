package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// Writes in one group, many of them of the same keys, do what they do one by one (API-7).
func TestGroupsAreAsSingleWrites(t *testing.T) {
	t.Parallel()
	cfg := Config{Dictionaries: byText, Retention: -1}
	together, _ := running(t, cfg)
	single, _ := running(t, cfg)
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 20 {
		var writes []Write
		for range 1 + rng.IntN(40) {
			w := Write{Key: fmt.Sprintf("/%c/%d", "ab"[rng.IntN(2)], rng.IntN(5)), Expect: AnyRevision}
			switch rng.IntN(4) {
			case 0:
				w.Expect = 0
			case 1: // right, where the group has not changed it
				w.Expect, _ = single.Stat(w.Key)
			}
			if rng.IntN(3) == 0 {
				w.Delete = true
			} else {
				w.Value = []byte(alike(rng.IntN(100))[:rng.IntN(500)])
				w.TTL = int64(rng.IntN(2)) * 1 << 30
			}
			writes = append(writes, w)
		}
		failures := together.CommitAll(t.Context(), writes)
		for i, w := range writes {
			_, err := single.Commit(t.Context(), w)
			equal(t, fmt.Sprintf("round %d, write %d", round, i), fmt.Sprint(failures[i]), fmt.Sprint(err))
		}
		equal(t, "the keys", list(t, together, "/", 0), list(t, single, "/", 0))
	}
	equal(t, "the history", replay(t, together, 1), replay(t, single, 1))
	latest := func(s *Store) (out string) {
		for _, e := range s.expiries.heap {
			if now, _, ok := s.index.get(e.key); ok && now.revision == e.revision {
				out += e.key + " "
			}
		}
		return fmt.Sprint(len(out))
	}
	equal(t, "what ends", latest(together), latest(single))
	verified(t, together)
}

// Writes that are handed over together have each an answer of their own, also when they
// are of several groups, and wrong ones among them.
func TestCommitAll(t *testing.T) {
	s, stop := running(t, Config{MaxGroup: 8})
	put(t, s, "/there", "0")
	var group sync.WaitGroup
	const each = 50
	for w := range 4 {
		group.Go(func() {
			writes := []Write{{Key: ""}, {Key: "/there", Value: []byte("1")}}
			for i := range each {
				writes = append(writes, Write{Key: fmt.Sprintf("/%d/%d", w, i), Value: []byte("v")})
			}
			writes = append(writes, Write{Key: fmt.Sprintf("/%d/0", w), Delete: true, Expect: AnyRevision}, Write{Key: "/none", Delete: true, Expect: AnyRevision})
			failures := s.CommitAll(t.Context(), writes)
			for i, err := range failures {
				var large *TooLargeError
				var conflict *ConflictError
				switch i {
				case 0:
					if !errors.As(err, &large) {
						t.Errorf("no key: %v", err)
					}
				case 1, len(writes) - 1:
					if !errors.As(err, &conflict) || conflict.Key != writes[i].Key {
						t.Errorf("%s: %v", writes[i].Key, err)
					}
				default:
					if err != nil {
						t.Errorf("%s: %v", writes[i].Key, err)
					}
				}
			}
		})
	}
	group.Wait()
	if keys, _ := s.Size(""); keys != 4*(each-1)+1 {
		t.Errorf("%d keys", keys)
	}
	if st, err := s.Stats(); err != nil || st.Queue != 0 {
		t.Errorf("queue %d, %v", st.Queue, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.CommitAll(over, []Write{{Key: "/a"}, {Key: "/b"}}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("without time: %v", err)
		}
	}
	stop()
	for _, err := range s.CommitAll(t.Context(), []Write{{Key: "/a"}, {Key: "/b"}}) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
	if got := s.CommitAll(t.Context(), nil); len(got) != 0 {
		t.Errorf("nothing: %v", got)
	}
}
