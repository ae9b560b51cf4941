package store

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// expiry is a key that ends at a time, unless it has another revision by then.
type expiry struct {
	at       int64 // milliseconds since 1970
	key      string
	revision uint64
}

type expiryHeap []expiry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiry)) }
func (h *expiryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = expiry{}
	*h = old[:len(old)-1]
	return last
}

// expiries are all keys with a time to live, the next to end first.
type expiries struct {
	mu   sync.Mutex
	heap expiryHeap
	wake chan struct{}
}

func (x *expiries) push(e expiry) {
	x.mu.Lock()
	heap.Push(&x.heap, e)
	first := x.heap[0] == e
	x.mu.Unlock()
	if first {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// due takes at most limit keys that have ended, and tells how long until the next.
func (x *expiries) due(now time.Time, limit int) (ended []expiry, wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.heap) > 0 {
		if left := time.UnixMilli(x.heap[0].at).Sub(now); left > 0 {
			return ended, left
		}
		if len(ended) == limit {
			return ended, 0
		}
		ended = append(ended, heap.Pop(&x.heap).(expiry))
	}
	return ended, time.Hour
}

// runExpiry deletes keys whose time has come. A delete that fails because of the disk is tried again.
func (s *Store) runExpiry(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.expiries.wake:
		case <-timer.C:
		}
		ended, wait := s.expiries.due(time.Now(), s.cfg.MaxGroup/2+1)
		if s.expire(ctx, ended) {
			wait = max(wait, time.Second)
		}
		timer.Reset(wait)
	}
}

// expire deletes the keys in one go and says whether some have to be tried again later.
func (s *Store) expire(ctx context.Context, ended []expiry) (again bool) {
	var wg sync.WaitGroup
	failed := make([]bool, len(ended))
	for i, e := range ended {
		if now, _, ok := s.index.get(e.key); !ok || now.revision != e.revision {
			continue // written or deleted since
		}
		wg.Go(func() {
			_, err := s.Commit(ctx, Write{Key: e.key, Delete: true, Expect: e.revision})
			if _, conflict := err.(*ConflictError); err != nil && !conflict && ctx.Err() == nil {
				failed[i] = true
			}
		})
	}
	wg.Wait()
	for i, e := range ended {
		if failed[i] {
			again = true
			s.expiries.mu.Lock()
			heap.Push(&s.expiries.heap, e)
			s.expiries.mu.Unlock()
		}
	}
	return again
}
