package wasm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
)

const (
	// MaxReview bounds what an admission plugin may answer.
	MaxReview = 8 << 20
	// MaxReviewers is how many instances of a module review at the same time.
	MaxReviewers = 4
)

// Review asks admission plugin i in an instance that does nothing else.
func (g *Guest) Review(ctx context.Context, i int, _ string, request []byte, timeout time.Duration) ([]byte, error) {
	r, err := g.reviewers.take(ctx, g)
	if err != nil {
		return nil, err
	}
	response, err := r.reviewHere(i, request, timeout)
	g.reviewers.give(r, !errors.Is(err, guest.ErrBroken))
	return response, err
}

// reviewHere asks admission plugin i of this instance.
func (g *Guest) reviewHere(i int, request []byte, timeout time.Duration) ([]byte, error) {
	if g.admitFn == nil {
		return nil, fmt.Errorf("plugin bundle %s: module exports no pintle_admit(i32, i32, i32) i64 (see sdk/ABI.md)", g.name)
	}
	if err := g.place(i, request); err != nil {
		return nil, err
	}
	if err := g.invoke(g.admitFn, timeout); err != nil {
		return nil, err
	}
	if g.stack[0] == 0 {
		return nil, g.failure(timeout)
	}
	return g.span(g.stack[0], MaxReview)
}

// reviewers are the instances of a module that answer reviews; the scheduler's
// own is not held up by them.
type reviewers struct {
	mu     sync.Mutex
	made   int
	closed bool
	idle   chan *Guest
	busy   sync.WaitGroup // instances that were taken
}

func newReviewers() *reviewers { return &reviewers{idle: make(chan *Guest, MaxReviewers)} }
