package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Loop is one queue with its workers.
type Loop struct {
	Queue workqueue.TypedRateLimitingInterface[string]

	name    string
	log     *slog.Logger
	watches []watch
}

type watch struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// New returns a loop that is called name in logs.
func New(name string, log *slog.Logger) *Loop {
	return &Loop{
		name: name, log: log,
		Queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name}),
	}
}

// Watch makes Run put the handler on the informer.
func (l *Loop) Watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	l.watches = append(l.watches, watch{informer, handler})
}

// Add enqueues the object's namespace/name; obj may be a tombstone.
func (l *Loop) Add(obj any) {
	if key, ok := l.key(obj); ok {
		l.Queue.Add(key)
	}
}

// AddAfter is Add once d has passed.
func (l *Loop) AddAfter(obj any, d time.Duration) {
	if key, ok := l.key(obj); ok {
		l.Queue.AddAfter(key, d)
	}
}

func (l *Loop) key(obj any) (string, bool) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		l.log.Error("object without a key", "error", err)
	}
	return key, err == nil
}

// Run waits for the informers and works with the given number of workers
// until ctx ends.
func (l *Loop) Run(ctx context.Context, workers int, work func(ctx context.Context, key string) error) error {
	defer l.Queue.ShutDown()
	var synced []cache.InformerSynced
	for _, w := range l.watches {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("%s: watch objects: %w", l.name, err)
		}
		defer func() {
			if err := w.informer.RemoveEventHandler(registration); err != nil {
				l.log.Error("take handler off", "error", err)
			}
		}()
		synced = append(synced, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(ctx, work) {
			}
		})
	}
	<-ctx.Done()
	l.Queue.ShutDown()
	wg.Wait()
	return nil
}

func (l *Loop) next(ctx context.Context, work func(context.Context, string) error) bool {
	key, quit := l.Queue.Get()
	if quit {
		return false
	}
	defer l.Queue.Done(key)
	err := guarded(ctx, key, work)
	if err == nil {
		l.Queue.Forget(key)
		return true
	}
	if ctx.Err() == nil {
		level := slog.LevelWarn
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			level = slog.LevelDebug // the cache was behind; ordinary while things change
		}
		l.log.Log(ctx, level, "sync failed and is tried again", "key", key, "error", err)
	}
	l.Queue.AddRateLimited(key)
	return true
}

// guarded turns a panic of one key into its error: the others go on.
func guarded(ctx context.Context, key string, work func(context.Context, string) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return work(ctx, key)
}

// Recorder returns a recorder of events that reports as component, and what
// stops it.
func Recorder(ctx context.Context, client kubernetes.Interface, component string) (record.EventRecorder, func()) {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), b.Shutdown
}
