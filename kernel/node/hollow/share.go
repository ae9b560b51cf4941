package hollow

import (
	"cmp"
	"container/heap"
	"context"
	"net/http"
	"sync"

	"google.golang.org/grpc"
)

// hollowShare is how many requests all hollow nodes together have in flight,
// to the API and to their runtime each. Nodes of a real cluster work on
// machines of their own; simulated ones must not take this one from the
// control plane, nor the API's places for writes from others.
const hollowShare = 2

// share is a number of places; each request in flight holds one. Who waits for
// one is served by the age of its round of work, and not of its request: the
// pods of a burst are brought up one after the other. In the order of requests
// each would take a step in turn, and all be ready at the very end.
type share struct {
	mu      sync.Mutex
	free    int
	waiting waiters
	last    uint64 // of the requests that waited
	round   func(context.Context) uint64
}

// newShare has so many places. round numbers the round of work that a context belongs
// to, the oldest the lowest.
func newShare(places int, round func(context.Context) uint64) *share {
	return &share{free: places, round: round}
}

// waiter is a request that has no place yet.
type waiter struct {
	round, request uint64
	place          chan struct{} // closed when it has one
	at             int           // its index in the heap; -1 when it has left
}

// waiters is a heap: the request of the oldest round is the first.
type waiters []*waiter

func (w waiters) Len() int { return len(w) }
func (w waiters) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(w[i].round, w[j].round), cmp.Compare(w[i].request, w[j].request)) < 0
}
func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}
func (w *waiters) Push(x any) {
	one := x.(*waiter)
	one.at = len(*w)
	*w = append(*w, one)
}
func (w *waiters) Pop() any {
	last := len(*w) - 1
	one := (*w)[last]
	(*w)[last], *w = nil, (*w)[:last]
	one.at = -1
	return one
}

// enter returns with a place, or with why ctx ended before there was one.
func (s *share) enter(ctx context.Context) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	s.last++
	w := &waiter{round: s.round(ctx), request: s.last, place: make(chan struct{})}
	heap.Push(&s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.place:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.at < 0 { // both at once: the place goes on to the next
		s.pass()
	} else {
		heap.Remove(&s.waiting, w.at)
	}
	return context.Cause(ctx)
}

func (s *share) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass gives a place to who waits for one. The caller holds mu.
func (s *share) pass() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	close(heap.Pop(&s.waiting).(*waiter).place)
}

// intercept is a grpc.UnaryClientInterceptor.
func (s *share) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return invoke(ctx, method, req, reply, cc, opts...)
}

// wrap limits a transport. A place is held until the answer begins: watches
// hold none while they wait for events.
func (s *share) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if err := s.enter(req.Context()); err != nil {
			return nil, err
		}
		defer s.leave()
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
