//go:build !wasip1

package reconciler

import (
	"context"
	"sync"
)

// turns keep a controller's Configure and Reconcile apart, as a module's one
// thread does. Reconcile comes from one goroutine at a time.
type turns struct {
	door      sync.Mutex // held to come in
	inside    sync.Mutex // held while one of the two is asked
	interrupt context.CancelFunc
}

// reconcile calls f, with a context that ends when a configuration waits.
func (t *turns) reconcile(ctx context.Context, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.door.Lock()
	t.inside.Lock()
	t.interrupt = cancel
	t.door.Unlock()
	defer t.inside.Unlock()
	f(ctx)
}

// configure calls f when the reconciliation under way has ended. What that one
// asks of the API fails from now on, so that it is tried again afterwards: the
// kernel waits for the answer.
func (t *turns) configure(f func() error) error {
	t.door.Lock()
	defer t.door.Unlock()
	if t.interrupt != nil {
		t.interrupt()
	}
	t.inside.Lock()
	defer t.inside.Unlock()
	return f()
}
