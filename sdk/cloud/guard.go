package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// guard stands between upstream's controllers and a provider. A panic becomes an error, a
// call that takes too long ends without the provider, and no two calls about one object
// are under way.
type guard struct {
	end   context.Context // ends every call: upstream makes some with a context that does not end
	name  string
	limit time.Duration
	log   *slog.Logger
	gate  *gate

	mu    sync.Mutex
	turns map[string]*turn // by the object that a call is about
}

// turn is a call about an object that is under way.
type turn struct {
	done chan struct{}
	late bool // nobody waits for it any more
}

func newGuard(end context.Context, name string, limit time.Duration, log *slog.Logger, gate *gate) *guard {
	return &guard{end: end, name: name, limit: limit, log: log, gate: gate, turns: map[string]*turn{}}
}

// take waits until no call about an object is under way. One that is late is not waited
// for: it may never return.
func (g *guard) take(ctx context.Context, method, object string) (*turn, error) {
	for {
		g.mu.Lock()
		before := g.turns[object]
		if before == nil {
			mine := &turn{done: make(chan struct{})}
			g.turns[object] = mine
			g.mu.Unlock()
			return mine, nil
		}
		late := before.late
		g.mu.Unlock()
		if late {
			return nil, fmt.Errorf("cloud provider %s: %s of %s: an earlier call has not returned yet", g.name, method, object)
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("cloud provider %s: %s of %s: %w", g.name, method, object, ctx.Err())
		}
	}
}

func (g *guard) release(object string, t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns[object] == t {
		delete(g.turns, object)
	}
	close(t.done)
}

// answer is what a call returned.
type answer[T any] struct {
	value T
	err   error
}

// call asks a provider about an object. Its errors come back as they are: upstream's
// controllers compare some of them.
func call[T any](ctx context.Context, g *guard, method, object string, ask func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if !g.gate.enter() {
		return none, errEnded
	}
	ctx, stop := context.WithTimeout(ctx, g.limit)
	unhook := context.AfterFunc(g.end, stop)
	cancel := func() {
		unhook()
		stop()
	}
	mine, err := g.take(ctx, method, object)
	if err != nil {
		cancel()
		g.gate.leave()
		return none, err
	}
	said := make(chan answer[T], 1)
	go func() {
		defer g.gate.leave()
		defer cancel()
		defer g.release(object, mine)
		value, err := recovering(g, method, object, func() (T, error) { return ask(ctx) })
		said <- answer[T]{value, err}
	}()
	select {
	case a := <-said:
		return a.value, a.err
	case <-ctx.Done():
	}
	select { // it may have answered by the end
	case a := <-said:
		return a.value, a.err
	default:
	}
	g.mu.Lock()
	mine.late = true
	g.mu.Unlock()
	if ctx.Err() == context.DeadlineExceeded {
		return none, fmt.Errorf("cloud provider %s: %s of %s: no answer within %s (providerTimeout)", g.name, method, object, g.limit)
	}
	return none, fmt.Errorf("cloud provider %s: %s of %s: %w", g.name, method, object, ctx.Err())
}

// recovering turns a panic of a provider into an error.
func recovering[T any](g *guard, method, object string, f func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("cloud provider panics", "method", method, "object", object, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("cloud provider %s: %s of %s: panic: %v", g.name, method, object, p)
		}
	}()
	return f()
}
