package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/sdk/controller"
)

// Loop is a queue of keys with its workers. The zero value is of no use; make
// one by New.
type Loop[K comparable] struct {
	name    string
	workers int
	retries int
	sync    func(ctx context.Context, key K) error
	log     *slog.Logger
	queue   workqueue.TypedRateLimitingInterface[K]
}

// Options of a loop; zero values are defaults.
type Options[K comparable] struct {
	// Name of the queue, upstream's where there is one; it stands in the log and in
	// the metrics. Without one it has none.
	Name string
	// Workers is how many keys are worked on at once; default 1.
	Workers int
	// Retries is how often a failing key is tried again before it is dropped
	// until the next event; 0 means for ever.
	Retries int
	// Limiter says when a failing key is tried again; default is client-go's,
	// 5 ms doubling up to 1000 s.
	Limiter workqueue.TypedRateLimiter[K]
}

// After makes a sync's error a plain wish to be called again: no failure is
// logged and the back-off of the key does not grow.
type After struct {
	Delay  time.Duration
	Reason string
}

func (a *After) Error() string { return a.Reason }

// Quiet makes an error one that is retried with back-off as any other and not
// logged as trouble: it was told in another way, such as by an event, or it is
// nothing unusual. Nil stays nil.
func Quiet(err error) error {
	if err == nil {
		return nil
	}
	return &quietError{err}
}

type quietError struct{ error }

func (q *quietError) Unwrap() error { return q.error }

// quiet says whether nobody needs to hear of an error; of several, all must be
// such. Conflicts, objects that went away and those that are there already mean
// that someone else was faster or the cache is behind, which is nothing unusual.
func quiet(err error) bool {
	var several []error
	switch e := err.(type) {
	case *quietError:
		return true
	case utilerrors.Aggregate:
		several = e.Errors()
	case interface{ Unwrap() []error }:
		several = e.Unwrap()
	case interface{ Unwrap() error }:
		return quiet(e.Unwrap())
	default:
		return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
	}
	return len(several) > 0 && !slices.ContainsFunc(several, func(e error) bool { return !quiet(e) })
}

// New returns a loop that calls sync for each key.
func New[K comparable](log *slog.Logger, sync func(ctx context.Context, key K) error, o Options[K]) *Loop[K] {
	if o.Limiter == nil {
		o.Limiter = workqueue.DefaultTypedControllerRateLimiter[K]()
	}
	if o.Name != "" {
		log = log.With("queue", o.Name)
	}
	return &Loop[K]{
		name: o.Name, workers: max(o.Workers, 1), retries: o.Retries, sync: sync, log: log,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(o.Limiter, workqueue.TypedRateLimitingQueueConfig[K]{Name: o.Name}),
	}
}

// SetWorkers says how many keys are worked on at once, before the loop runs.
func (l *Loop[K]) SetWorkers(n int) { l.workers = max(n, 1) }

// Add puts a key on the queue.
func (l *Loop[K]) Add(key K) { l.queue.Add(key) }

// AddAfter puts a key on the queue when the delay is over.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) { l.queue.AddAfter(key, delay) }

// Len is how many keys wait.
func (l *Loop[K]) Len() int { return l.queue.Len() }

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
	began := time.Now()
	err := l.once(ctx, key)
	if l.name != "" && ctx.Err() == nil {
		controller.Reconciled(l.name, outcome(err), time.Since(began))
	}
	var after *After
	switch {
	case err == nil:
		l.queue.Forget(key)
	case ctx.Err() != nil:
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// What is missing can no longer be made; all else goes by events.
		l.log.DebugContext(ctx, "the namespace is being deleted", "key", key, "error", err)
		l.queue.Forget(key)
	case errors.As(err, &after):
		l.queue.Forget(key)
		l.queue.AddAfter(key, after.Delay)
	case l.retries > 0 && l.queue.NumRequeues(key) >= l.retries:
		l.log.Error("given up until the next change", "key", key, "error", err)
		l.queue.Forget(key)
	default:
		level := slog.LevelWarn
		if quiet(err) {
			level = slog.LevelDebug
		}
		l.log.Log(ctx, level, "failed and is tried again", "key", key, "error", err)
		l.queue.AddRateLimited(key)
	}
	return true
}

func outcome(err error) string {
	switch {
	case err == nil:
		return controller.ResultSuccess
	case errors.As(err, new(*After)):
		return controller.ResultRequeueAfter
	}
	return controller.ResultError
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
