package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// keyedWorkers is how many keys of one controller are worked on at once.
const keyedWorkers = 4

// Keyed is the short form of a controller: reconcile is called with the key of
// each object that watch informs of, when it is there, changes or is gone, and
// again with back-off as long as it answers an error. Calls for one key come one
// at a time, calls for different keys beside each other.
func Keyed(name string, watch func(c *Context) cache.SharedIndexInformer, reconcile func(ctx context.Context, c *Context, key cache.ObjectName) error) Controller {
	return Controller{Name: name, New: func(c *Context) (Runner, error) {
		return &keyed{context: c, informer: watch(c), reconcile: reconcile}, nil
	}}
}

type keyed struct {
	context   *Context
	informer  cache.SharedIndexInformer
	reconcile func(ctx context.Context, c *Context, key cache.ObjectName) error
}

// Run implements Runner.
func (k *keyed) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if m, err := meta.Accessor(o); err == nil {
			queue.Add(cache.MetaObjectToName(m))
		}
	}
	handler, err := k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) }, DeleteFunc: enqueue,
	})
	if err != nil {
		queue.ShutDown()
		return fmt.Errorf("controller %s: %w", k.context.Name, err)
	}
	var workers sync.WaitGroup
	if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		for range keyedWorkers {
			workers.Go(func() {
				for k.work(ctx, queue) {
				}
			})
		}
	}
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
	return k.informer.RemoveEventHandler(handler)
}

// work takes one key; false is the end of the queue.
func (k *keyed) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[cache.ObjectName]) bool {
	key, end := queue.Get()
	if end {
		return false
	}
	defer queue.Done(key)
	if err := k.once(ctx, key); err != nil && ctx.Err() == nil {
		k.context.Logger.Error("not reconciled, tried again", "key", key.String(), "error", err, "tries", queue.NumRequeues(key)+1)
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	return true
}

// once contains a panic: another key, or another try, may do better.
func (k *keyed) once(ctx context.Context, key cache.ObjectName) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.Join(err, fmt.Errorf("panic: %v", r))
		}
	}()
	return k.reconcile(ctx, k.context, key)
}
