package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Loop is a queue of keys with its workers. The zero value is of no use; make
// one by New.
type Loop[K comparable] struct {
	workers int
	retries int
	sync    func(ctx context.Context, key K) error
	log     *slog.Logger
	queue   workqueue.TypedRateLimitingInterface[K]
}

// Options of a loop; zero values are defaults.
type Options[K comparable] struct {
	// Workers is how many keys are worked on at once; default 1.
	Workers int
	// Retries is how often a failing key is tried again before it is dropped
	// until the next event; 0 means for ever.
	Retries int
	// Limiter says when a failing key is tried again; default is client-go's,
	// 5 ms doubling up to 1000 s.
	Limiter workqueue.TypedRateLimiter[K]
}

// After makes Sync's error a plain wish to be called again: no failure is
// logged and the back-off of the key does not grow.
type After struct {
	Delay  time.Duration
	Reason string
}

func (a *After) Error() string { return a.Reason }

// New returns a loop that calls sync for each key.
func New[K comparable](log *slog.Logger, sync func(ctx context.Context, key K) error, o Options[K]) *Loop[K] {
	if o.Limiter == nil {
		o.Limiter = workqueue.DefaultTypedControllerRateLimiter[K]()
	}
	return &Loop[K]{
		workers: max(o.Workers, 1), retries: o.Retries, sync: sync, log: log,
		queue: workqueue.NewTypedRateLimitingQueue(o.Limiter),
	}
}

// Add puts a key on the queue.
func (l *Loop[K]) Add(key K) { l.queue.Add(key) }

// AddAfter puts a key on the queue when the delay is over.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) { l.queue.AddAfter(key, delay) }

// Run works on keys until ctx ends and returns when the workers have ended. A
// loop runs once.
func (l *Loop[K]) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range l.workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	wg.Wait()
}

// Close ends the queue of a loop that is never run.
func (l *Loop[K]) Close() { l.queue.ShutDown() }

func (l *Loop[K]) next(ctx context.Context) bool {
	key, quit := l.queue.Get()
	if quit {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true // the queue is drained without work
	}
	err := l.once(ctx, key)
	var after *After
	switch {
	case err == nil:
		l.queue.Forget(key)
	case ctx.Err() != nil:
	case errors.As(err, &after):
		l.queue.Forget(key)
		l.queue.AddAfter(key, after.Delay)
	case l.retries > 0 && l.queue.NumRequeues(key) >= l.retries:
		l.log.Error("given up until the next change", "key", key, "error", err)
		l.queue.Forget(key)
	default:
		level := slog.LevelWarn
		if apierrors.IsConflict(err) {
			level = slog.LevelDebug // someone else was faster, which is nothing unusual
		}
		l.log.Log(ctx, level, "failed and is tried again", "key", key, "error", err)
		l.queue.AddRateLimited(key)
	}
	return true
}

// once turns a panic over one key into its error: the other keys go on.
func (l *Loop[K]) once(ctx context.Context, key K) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.sync(ctx, key)
}

// Handlers are the event handlers of one controller on shared informers.
type Handlers struct {
	taken []func() error
	ready []cache.InformerSynced
}

// Add puts a handler on an informer.
func (h *Handlers) Add(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	reg, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("event handler: %w", err)
	}
	h.taken = append(h.taken, func() error { return informer.RemoveEventHandler(reg) })
	h.ready = append(h.ready, reg.HasSynced)
	return nil
}

// Wait waits until the handlers have seen all that was there, and until the
// other caches are filled; it is false when ctx ended first.
func (h *Handlers) Wait(ctx context.Context, others ...cache.InformerSynced) bool {
	return cache.WaitForCacheSync(ctx.Done(), append(others, h.ready...)...)
}

// Remove takes the handlers off again.
func (h *Handlers) Remove() error {
	var errs []error
	for _, off := range h.taken {
		errs = append(errs, off())
	}
	h.taken, h.ready = nil, nil
	return errors.Join(errs...)
}

// On is a handler that calls changed for every object that is added, changed
// or deleted; T is the pointer type of the informer's kind. old is nil for an
// added object, current is nil for a deleted one.
func On[T comparable](changed func(old, current T)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(T); ok {
				changed(none, o)
			}
		},
		UpdateFunc: func(old, current any) {
			o, ok := old.(T)
			c, ok2 := current.(T)
			if ok && ok2 {
				changed(o, c)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(T); ok {
				changed(o, none)
			}
		},
	}
}

// Watch is a handler on an informer.
type Watch struct {
	Informer cache.SharedIndexInformer
	Handler  cache.ResourceEventHandler
}

// Follow is the whole Run of a controller with one queue: it puts the handlers
// on, waits for their caches, works until ctx ends, and takes them off again.
func (l *Loop[K]) Follow(ctx context.Context, watches ...Watch) (err error) {
	defer l.Close()
	var handlers Handlers
	defer func() {
		if e := handlers.Remove(); err == nil {
			err = e
		}
	}()
	for _, w := range watches {
		if err := handlers.Add(w.Informer, w.Handler); err != nil {
			return err
		}
	}
	if handlers.Wait(ctx) {
		l.Run(ctx)
	}
	return nil
}
