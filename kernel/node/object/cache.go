package object

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"pintle.dev/pintle/kernel/node/client"
)

// Kind is ConfigMap or Secret.
type Kind string

// The kinds kept.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

// fetchTimeout is how long one read may take.
const fetchTimeout = 30 * time.Second

type key struct {
	kind            Kind
	namespace, name string
}

type entry struct {
	users  sets.Set[types.UID]
	cancel context.CancelFunc
	loaded chan struct{} // closed at the first answer

	mu  sync.Mutex
	obj runtime.Object
	err error
}

// Cache holds objects by reference.
type Cache struct {
	client  client.Interface
	changed func(uid types.UID)

	ctx  context.Context //nolint:containedctx // the lifetime of the watches, ended by Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	entries map[key]*entry
	byPod   map[types.UID]sets.Set[key]
}

// New makes an empty cache; changed is called for each pod that refers to an object that changed and must not block.
func New(client client.Interface, changed func(uid types.UID)) *Cache {
	ctx, stop := context.WithCancel(context.Background())
	return &Cache{client: client, changed: changed, ctx: ctx, stop: stop, entries: map[key]*entry{}, byPod: map[types.UID]sets.Set[key]{}}
}

// Close ends all watches and waits.
func (c *Cache) Close() {
	c.stop()
	c.wg.Wait()
}

// For is the cache in the name of one pod: what it reads is kept until Release of that pod.
func (c *Cache) For(uid types.UID) *View { return &View{c: c, uid: uid} }

// Release drops the pod's references.
func (c *Cache) Release(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.byPod[uid] {
		e := c.entries[k]
		e.users.Delete(uid)
		if e.users.Len() == 0 {
			e.cancel()
			delete(c.entries, k)
		}
	}
	delete(c.byPod, uid)
}

// View reads for one pod; it implements container.Source.
type View struct {
	c   *Cache
	uid types.UID
}

// ConfigMap is the current object; shared, read only.
func (v *View) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	obj, err := v.c.get(ctx, v.uid, key{ConfigMap, namespace, name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.ConfigMap), nil
}

// Secret is the current object; shared, read only.
func (v *View) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	obj, err := v.c.get(ctx, v.uid, key{Secret, namespace, name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Secret), nil
}

func (c *Cache) get(ctx context.Context, uid types.UID, k key) (runtime.Object, error) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, errors.New("object cache is closed")
	}
	e := c.entries[k]
	if e == nil {
		ectx, cancel := context.WithCancel(c.ctx)
		e = &entry{users: sets.New[types.UID](), cancel: cancel, loaded: make(chan struct{})}
		c.entries[k] = e
		c.wg.Go(func() { c.follow(ectx, k, e) })
	}
	e.users.Insert(uid)
	if c.byPod[uid] == nil {
		c.byPod[uid] = sets.New[key]()
	}
	c.byPod[uid].Insert(k)
	c.mu.Unlock()
	select {
	case <-e.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s %s/%s: %w", k.kind, k.namespace, k.name, ctx.Err())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.obj, e.err
}

// fetch reads the object. A read that has begun is carried through though nobody wants it any more: a request that its
// caller gives up costs the API more than its answer does. Only Close ends it.
func (c *Cache) fetch(k key) (obj runtime.Object, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, fetchTimeout)
	defer cancel()
	if k.kind == Secret {
		obj, err = c.client.CoreV1().Secrets(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
	} else {
		obj, err = c.client.CoreV1().ConfigMaps(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		// Events and statuses name the kind, not the resource: secret "keys" not found.
		err = apierrors.NewNotFound(corev1.Resource(strings.ToLower(string(k.kind))), k.name)
	}
	return obj, err
}

func (c *Cache) watch(ctx context.Context, k key, revision string) (watch.Interface, error) {
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", k.name).String(), ResourceVersion: revision, AllowWatchBookmarks: true}
	if k.kind == Secret {
		return c.client.CoreV1().Secrets(k.namespace).Watch(ctx, o)
	}
	return c.client.CoreV1().ConfigMaps(k.namespace).Watch(ctx, o)
}

// follow reads the object and watches it until ctx ends. While the object is missing or the API does not answer it is
// asked again, ever less often.
func (c *Cache) follow(ctx context.Context, k key, e *entry) {
	const fastest, slowest = 250 * time.Millisecond, 10 * time.Second
	wait, first := fastest, true
	for ctx.Err() == nil {
		obj, err := c.fetch(k)
		if err != nil {
			obj = nil
		}
		if ctx.Err() != nil {
			break
		}
		// A read that fails for another reason than absence keeps what is known.
		if err == nil || apierrors.IsNotFound(err) || first {
			c.store(e, obj, err, !first)
		}
		if first {
			close(e.loaded)
			first = false
		}
		if err == nil {
			wait = fastest
			if immutable(obj) {
				return
			}
			if w, err := c.watch(ctx, k, revision(obj)); err == nil {
				c.drain(ctx, e, w)
				w.Stop()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, slowest)
	}
	if first {
		c.store(e, nil, fmt.Errorf("read %s %s/%s: %w", k.kind, k.namespace, k.name, ctx.Err()), false)
		close(e.loaded)
	}
}

func (c *Cache) drain(ctx context.Context, e *entry, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-w.ResultChan():
			if !ok {
				return
			}
			switch ev.Type {
			case watch.Added, watch.Modified:
				c.store(e, ev.Object, nil, true)
			case watch.Deleted, watch.Error:
				return // read it again
			}
		}
	}
}

func (c *Cache) store(e *entry, obj runtime.Object, err error, tell bool) {
	e.mu.Lock()
	same := e.obj != nil && obj != nil && revision(e.obj) == revision(obj) || e.err != nil && err != nil
	e.obj, e.err = obj, err
	e.mu.Unlock()
	if !tell || same {
		return
	}
	c.mu.Lock()
	users := e.users.UnsortedList()
	c.mu.Unlock()
	for _, uid := range users {
		c.changed(uid)
	}
}

func revision(obj runtime.Object) string {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return o.ResourceVersion
	case *corev1.Secret:
		return o.ResourceVersion
	}
	return ""
}

func immutable(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	case *corev1.Secret:
		return o.Immutable != nil && *o.Immutable
	}
	return false
}
