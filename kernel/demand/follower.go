package demand

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	// looks is how long a resource, or the definition of one that is not served, is watched at
	// a time.
	looks = time.Hour
	// retries is the wait after a list, a watch or a start that failed; it doubles up to
	// longestRetry.
	retries, longestRetry = time.Second, time.Minute
	// page is how many objects one list has at most.
	page = 200
)

// Config is what a Follower works with.
type Config struct {
	Client dynamic.Interface
	// Start puts a plugin in force that object asks for. It is tried again after an error.
	Start func(plugin, object string) error
	Log   *slog.Logger
}

// Follower looks for objects that ask for plugins. The zero value waits for nothing.
type Follower struct {
	mu    sync.Mutex
	wants []Want
	met   map[string]bool
	// failed are plugins that could not be started, by name.
	failed map[string]failure
	// changed is closed when wants or met is another.
	changed chan struct{}
}

// failure is when a plugin that could not be started is tried again, and the wait after that.
type failure struct {
	until time.Time
	next  time.Duration
}

// Use makes the wants of a changed configuration count. What was asked for stays.
func (f *Follower) Use(wants []Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wants = wants
	f.tell()
}

// Met reports whether an object has asked for a plugin.
func (f *Follower) Met(plugin string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met[plugin]
}

// mark notes that a plugin was asked for, or that it is not after all.
func (f *Follower) mark(plugin string, met bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.met == nil {
		f.met = map[string]bool{}
	}
	f.met[plugin] = met
	f.tell()
}

// tell wakes who waits for a change; mu is held.
func (f *Follower) tell() {
	if f.changed != nil {
		close(f.changed)
	}
	f.changed = make(chan struct{})
}

// waiting are the wants that are not met, what is closed when they change, and when the
// next of those that failed is tried again (zero: none).
func (f *Follower) waiting() (_ map[schema.GroupVersionResource][]Want, changed <-chan struct{}, again time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	out := map[schema.GroupVersionResource][]Want{}
	for _, w := range f.wants {
		if f.met[w.Plugin] {
			continue
		}
		if at := f.failed[w.Plugin].until; time.Now().Before(at) {
			if again.IsZero() || at.Before(again) {
				again = at
			}
			continue
		}
		of := map[schema.GroupVersionResource][]Rule{}
		for _, r := range w.Rules {
			of[r.Resource] = append(of[r.Resource], r)
		}
		for resource, rules := range of {
			out[resource] = append(out[resource], Want{Plugin: w.Plugin, Rules: rules})
		}
	}
	return out, f.changed, again
}

// asked is a plugin, and the object that asks for it.
type asked struct{ plugin, object string }

// Run looks for objects and starts what they ask for, until ctx ends.
func (f *Follower) Run(ctx context.Context, c Config) error {
	for ctx.Err() == nil {
		resources, changed, again := f.waiting()
		if again.IsZero() {
			again = time.Now().Add(looks)
		}
		round, cancel := context.WithDeadline(ctx, again)
		found := make(chan asked)
		var group sync.WaitGroup
		for resource, wants := range resources {
			group.Go(func() { c.follow(round, resource, wants, found) })
		}
		var first asked
		select {
		case <-round.Done():
		case <-changed:
		case first = <-found:
		}
		cancel()
		group.Wait()
		if first.plugin != "" {
			f.start(c, first)
		}
	}
	return nil
}

// start puts a plugin in force. One that cannot start is looked for again after a while.
func (f *Follower) start(c Config, a asked) {
	f.mark(a.plugin, true)
	err := c.Start(a.plugin, a.object)
	if err == nil {
		c.Log.Info("plugin starts: an object asks for it", "plugin", a.plugin, "object", a.object)
		return
	}
	f.mu.Lock()
	wait := max(f.failed[a.plugin].next, retries)
	if f.failed == nil {
		f.failed = map[string]failure{}
	}
	f.failed[a.plugin] = failure{until: time.Now().Add(wait), next: min(2*wait, longestRetry)}
	f.mu.Unlock()
	f.mark(a.plugin, false)
	c.Log.Error("plugin does not start though an object asks for it; it is tried again", "plugin", a.plugin, "object", a.object, "wait", wait, "error", err)
}

// follow looks at the objects of a resource until one asks for a plugin or ctx ends.
func (c *Config) follow(ctx context.Context, resource schema.GroupVersionResource, wants []Want, found chan<- asked) {
	pause := backoff()
	for ctx.Err() == nil {
		a, err := c.look(ctx, resource, wants)
		switch {
		case a != nil:
			select {
			case found <- *a:
			case <-ctx.Done():
			}
			return
		case err == nil:
			pause = backoff() // the watch ended, as watches do
		case apierrors.IsNotFound(err):
			if c.defined(ctx, resource) {
				pause = backoff()
			}
		case ctx.Err() == nil:
			c.Log.Debug("objects that may ask for a plugin cannot be read; it is tried again", "resource", resource.String(), "error", err)
		}
		pause(ctx)
	}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// defined waits until the definition of a resource is there, and reports whether it was not
// at first. It is served soon after.
func (c *Config) defined(ctx context.Context, resource schema.GroupVersionResource) (came bool) {
	ctx, cancel := context.WithTimeout(ctx, looks)
	defer cancel()
	client, name := c.Client.Resource(definitions), resource.GroupResource().String()
	if _, err := client.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return false
	}
	w, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, AllowWatchBookmarks: true})
	if err != nil {
		return false
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case e, more := <-w.ResultChan():
			if !more || e.Type == watch.Error {
				return false
			}
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Bookmark && o.GetName() == name {
				return true
			}
		}
	}
}

// look lists and watches a resource. It returns the first object that asks, or nil when the watch ended.
func (c *Config) look(ctx context.Context, resource schema.GroupVersionResource, wants []Want) (*asked, error) {
	client := c.Client.Resource(resource)
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := client.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if a := asks(resource, &list.Items[i], wants); a != nil {
				return a, nil
			}
		}
		options.ResourceVersion, options.Continue = list.GetResourceVersion(), list.GetContinue()
		if options.Continue == "" {
			break
		}
		options.ResourceVersion = ""
	}
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: options.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e, more := <-w.ResultChan():
			if !more {
				return nil, nil
			}
			switch o, ok := e.Object.(*unstructured.Unstructured); {
			case e.Type == watch.Error || !ok:
				return nil, nil // it is listed again
			case e.Type == watch.Added || e.Type == watch.Modified:
				if a := asks(resource, o, wants); a != nil {
					return a, nil
				}
			}
		}
	}
}

// asks returns the first plugin that an object asks for, or nil. One that is being deleted
// asks for nothing.
func asks(resource schema.GroupVersionResource, o *unstructured.Unstructured, wants []Want) *asked {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	for _, w := range wants {
		for i := range w.Rules {
			if !w.Rules[i].meets(o.Object) {
				continue
			}
			name := o.GetName()
			if ns := o.GetNamespace(); ns != "" {
				name = ns + "/" + name
			}
			return &asked{plugin: w.Plugin, object: resource.GroupResource().String() + " " + name}
		}
	}
	return nil
}

// backoff returns a wait that doubles each time.
func backoff() func(context.Context) {
	next := retries
	return func(ctx context.Context) {
		wait(ctx, next)
		next = min(2*next, longestRetry)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
