package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

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
