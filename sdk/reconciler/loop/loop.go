package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = 5 * time.Minute
	// resync asks about every object again, for what a missed change or a
	// change outside the cluster left behind.
	resync = 10 * time.Hour
)

// ErrFatal ends the loop when Reconcile returns an error that wraps it: the
// function cannot be asked any more.
var ErrFatal = errors.New("the reconciler cannot go on")

// Result says when to ask about a key again without a change; 0: not. With an
// error, it is asked again with back-off, and not before that.
type Result struct{ RequeueAfter time.Duration }

// Config is what a loop works with.
type Config struct {
	Name string
	For  protocol.Resource
	// Owns: a change of an object whose controller is of For asks about that.
	Owns []protocol.Resource
	REST *rest.Config // of the controller's identity; protobuf or JSON
	Log  *slog.Logger
	// Reconcile is called by one goroutine at a time.
	Reconcile func(context.Context, protocol.Key) (Result, error)
	// Trouble is told why nothing can be watched, and nil when it can again; may be nil.
	Trouble func(error)
}

// Loop calls a function about each object that changed.
type Loop struct {
	cfg       Config
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	queue     workqueue.TypedRateLimitingInterface[protocol.Key]
	limiter   workqueue.TypedRateLimiter[protocol.Key]

	mu      sync.Mutex
	trouble map[string]error // of a resource's watch
}

// New checks the configuration and makes the clients; it starts nothing.
func New(cfg Config) (*Loop, error) {
	if cfg.Reconcile == nil || cfg.REST == nil {
		return nil, fmt.Errorf("controller %s: want Reconcile and REST", cfg.Name)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Trouble == nil {
		cfg.Trouble = func(error) {}
	}
	plain := rest.CopyConfig(cfg.REST)
	plain.ContentType, plain.AcceptContentTypes = "", ""
	d, err := discovery.NewDiscoveryClientForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("controller %s: client: %w", cfg.Name, err)
	}
	m, err := metadata.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("controller %s: client: %w", cfg.Name, err)
	}
	return &Loop{cfg: cfg, discovery: d, metadata: m, trouble: map[string]error{}}, nil
}

// Run works until ctx ends, which is no error, or Reconcile answers ErrFatal.
func (l *Loop) Run(ctx context.Context) error {
	kind, err := l.kind()
	if err != nil {
		return err
	}
	l.limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[protocol.Key](firstBackoff, lastBackoff)
	l.queue = workqueue.NewTypedRateLimitingQueueWithConfig(l.limiter,
		workqueue.TypedRateLimitingQueueConfig[protocol.Key]{Name: l.cfg.Name})
	defer l.queue.ShutDown() // also where it never came to work
	factory := metadatainformer.NewSharedInformerFactory(l.metadata, resync)
	ctx, cancel := context.WithCancelCause(ctx)
	defer factory.Shutdown()
	defer cancel(nil)
	synced := make([]cache.InformerSynced, 0, 1+len(l.cfg.Owns))
	watch := func(r protocol.Resource, keyOf func(metav1.Object) (protocol.Key, bool)) error {
		informer := factory.ForResource(gvr(r)).Informer()
		if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			l.troubled(r, err)
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		}); err != nil {
			return err
		}
		handler, err := informer.AddEventHandler(l.handler(r, keyOf))
		if err != nil {
			return err
		}
		synced = append(synced, handler.HasSynced)
		return nil
	}
	if err := watch(l.cfg.For, func(o metav1.Object) (protocol.Key, bool) {
		return protocol.Key{Namespace: o.GetNamespace(), Name: o.GetName()}, true
	}); err != nil {
		return fmt.Errorf("controller %s: watch %s: %w", l.cfg.Name, l.cfg.For, err)
	}
	for _, r := range l.cfg.Owns {
		if err := watch(r, func(o metav1.Object) (protocol.Key, bool) { return ownerKey(o, l.cfg.For.Group, kind) }); err != nil {
			return fmt.Errorf("controller %s: watch %s: %w", l.cfg.Name, r, err)
		}
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	// A resource without objects has no event that would tell.
	l.troubled(l.cfg.For, nil)
	for _, r := range l.cfg.Owns {
		l.troubled(r, nil)
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		for l.next(ctx, cancel) {
		}
	})
	<-ctx.Done()
	l.queue.ShutDown()
	worker.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrFatal) {
		return err
	}
	return nil
}

// kind finds the kind that owner references of For's objects name; only a
// controller that owns something needs it.
func (l *Loop) kind() (string, error) {
	if len(l.cfg.Owns) == 0 {
		return "", nil
	}
	version := gvr(l.cfg.For).GroupVersion().String()
	list, err := l.discovery.ServerResourcesForGroupVersion(version)
	if err != nil {
		return "", fmt.Errorf("controller %s: discover %s: %w", l.cfg.Name, version, err)
	}
	for _, r := range list.APIResources {
		if r.Name == l.cfg.For.Resource {
			return r.Kind, nil
		}
	}
	return "", fmt.Errorf("controller %s: the API has no resource %s; install its CustomResourceDefinition", l.cfg.Name, l.cfg.For)
}

func (l *Loop) handler(r protocol.Resource, keyOf func(metav1.Object) (protocol.Key, bool)) cache.ResourceEventHandler {
	add := func(o any) {
		l.troubled(r, nil)
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if m, ok := o.(metav1.Object); ok {
			if key, ok := keyOf(m); ok {
				l.queue.Add(key)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: add, DeleteFunc: add,
		UpdateFunc: func(old, now any) {
			// One that changed hands concerns both owners.
			add(old)
			add(now)
		},
	}
}

func ownerKey(o metav1.Object, group, kind string) (protocol.Key, bool) {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != kind {
		return protocol.Key{}, false
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != group {
		return protocol.Key{}, false
	}
	return protocol.Key{Namespace: o.GetNamespace(), Name: owner.Name}, true
}

// next takes one key; false ends the worker.
func (l *Loop) next(ctx context.Context, end context.CancelCauseFunc) bool {
	key, quit := l.queue.Get()
	if quit {
		return false
	}
	defer l.queue.Done(key)
	result, err := l.cfg.Reconcile(ctx, key)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, ErrFatal):
		end(err)
		return false
	case err != nil:
		l.cfg.Log.Warn("reconciliation failed and is tried again", "key", key.String(), "failures", l.queue.NumRequeues(key)+1, "error", err)
		l.queue.AddAfter(key, max(l.limiter.When(key), result.RequeueAfter))
	default:
		l.queue.Forget(key)
		if result.RequeueAfter > 0 {
			l.queue.AddAfter(key, result.RequeueAfter)
		}
	}
	return true
}

func (l *Loop) troubled(r protocol.Resource, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		if _, was := l.trouble[r.String()]; !was {
			return
		}
		delete(l.trouble, r.String())
	} else {
		l.trouble[r.String()] = fmt.Errorf("watch %s: %w", r, err)
	}
	var all []error
	for _, e := range l.trouble {
		all = append(all, e)
	}
	l.cfg.Trouble(errors.Join(all...))
}

func gvr(r protocol.Resource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}
