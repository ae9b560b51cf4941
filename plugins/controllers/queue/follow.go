package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Watch is a handler on a shared informer. Without a handler the informer's
// cache is only waited for.
type Watch struct {
	Informer cache.SharedIndexInformer
	Handler  cache.ResourceEventHandler
}

// Worker is what a controller does while its caches are filled: a Loop, or a
// Func.
type Worker interface {
	// Run works until ctx ends and returns when its goroutines have ended.
	Run(ctx context.Context)
	// Close is called in the end, also when Run never was.
	Close()
}

var _ Worker = (*Loop[string])(nil)

// Func is a Worker of one function, for what is done once or by the clock. It
// returns when ctx ends, or earlier if it has nothing more to do.
type Func func(ctx context.Context)

// Run calls f.
func (f Func) Run(ctx context.Context) { f(ctx) }

// Close does nothing.
func (f Func) Close() {}

// Follow is the whole Run of a controller: it puts the handlers on, waits for
// the caches, lets the workers work until ctx ends, and takes the handlers off
// again when they have ended.
func Follow(ctx context.Context, watches []Watch, workers ...Worker) (err error) {
	var synced []cache.InformerSynced
	for _, w := range workers {
		defer w.Close()
	}
	for _, w := range watches {
		if w.Handler == nil {
			synced = append(synced, w.Informer.HasSynced)
			continue
		}
		registration, fault := w.Informer.AddEventHandler(w.Handler)
		if fault != nil {
			return fmt.Errorf("event handler: %w", fault)
		}
		defer func() { err = errors.Join(err, w.Informer.RemoveEventHandler(registration)) }()
		synced = append(synced, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.Run(ctx) })
	}
	wg.Wait()
	return nil
}

// Follow is Follow for a controller with this one queue.
func (l *Loop[K]) Follow(ctx context.Context, watches ...Watch) error {
	return Follow(ctx, watches, l)
}

// Key is the namespace/name of an object.
func Key(o metav1.Object) string { return cache.MetaObjectToName(o).String() }

// On is a handler that calls changed for every object that is added, changed
// or deleted; T is the pointer type of the informer's kind, or metav1.Object
// for any. old is nil for an added object, current is nil for a deleted one.
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

// Every is On for a handler that only needs the latest state of the object,
// which for a deleted one is the last.
func Every[T comparable](changed func(T)) cache.ResourceEventHandler {
	var none T
	return On(func(old, current T) {
		if current == none {
			current = old
		}
		changed(current)
	})
}
