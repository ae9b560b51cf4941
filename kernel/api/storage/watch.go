package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

const (
	// resultBuffer is the number of events that may wait for the watch's reader.
	resultBuffer = 100
	// lastBookmark is how long before its deadline a watch sends a bookmark, so that the next one starts from there.
	lastBookmark = 2 * time.Second
)

// watcher is one watch.
type watcher struct {
	storage   *Storage
	key       string
	opts      storage.ListOptions
	predicate storage.SelectionPredicate
	// all is set when the predicate selects everything.
	all bool
	// terms are all that the predicate asks, nil when it asks other things.
	terms []term
	// selection is what is shared with watches of the same selector, nil when nothing is.
	selection *selection
	// plain: events carry no shared objects.
	plain bool
	// unsent: nobody encodes the events' objects, or writes into them.
	unsent bool

	ctx     context.Context
	cancel  context.CancelFunc
	results chan watch.Event
	// progress receives requests for a progress notification.
	progress chan struct{}
	ended    chan struct{}
	// sent is the resource version of the last event or bookmark.
	sent uint64
}

// Watch implements storage.Interface.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	revision, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		// Nobody above translates a watch's error; as it is, a client's fault
		// would be an internal error. The words are those of a list.
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.WatchList) {
		opts.SendInitialEvents = nil
	}
	w := &watcher{
		storage: s, key: key, opts: opts, predicate: opts.Predicate, all: opts.Predicate.Empty(),
		results: make(chan watch.Event, resultBuffer), progress: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	w.unsent = plainObjects(ctx)
	w.plain = opts.RecordTimestamps || opts.ProgressNotify || w.unsent
	w.ctx, w.cancel = context.WithCancel(ctx)

	initial := opts.SendInitialEvents == nil && revision == 0 || opts.SendInitialEvents != nil && *opts.SendInitialEvents
	var snapshot *store.Snapshot
	if initial {
		if snapshot, err = s.store.Snapshot(0); err != nil {
			w.cancel()
			return nil, err
		}
		if revision > snapshot.Revision() {
			w.cancel()
			return failedWatch(storage.NewTooLargeResourceVersionError(revision, snapshot.Revision(), tooLargeRetry)), nil
		}
		revision = snapshot.Revision()
	} else if revision == 0 {
		revision = s.store.CurrentRevision()
	}
	sub, err := s.backend.bus.Subscribe(bus.Options{Key: key, Recursive: opts.Recursive, Topic: w.topic(), After: revision, Kind: s.groupResource.String(), Who: w.who})
	if err != nil {
		w.cancel()
		return failedWatch(err), nil
	}
	w.sent = revision
	if w.terms, _ = s.terms(opts.Predicate); w.terms == nil {
		w.selection = s.join(opts.Predicate)
	}

	if !w.plain {
		s.encoded.Add(1)
	}
	s.mu.Lock()
	s.watches[w] = struct{}{}
	s.mu.Unlock()
	go w.run(snapshot, sub)
	return w, nil
}

// who names the watch for whoever looks for a slow one: its user and its selector.
func (w *watcher) who() string {
	const longest = 300
	name := "the kernel itself"
	if user, ok := request.UserFrom(w.ctx); ok {
		name = user.GetName()
	}
	text := fmt.Sprintf("%s, watching %s", name, w.storage.groupResource)
	if !w.all {
		text += fmt.Sprintf(" with labels %q and fields %q", w.predicate.Label, w.predicate.Field)
	}
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return text
}

// topic is the bus topic of a selector that asks for one value of a trigger field.
func (w *watcher) topic() string {
	if w.predicate.Field == nil {
		return ""
	}
	for _, field := range w.storage.triggerFields {
		if value, ok := w.predicate.Field.RequiresExactMatch(field); ok {
			return topicOf(field, value)
		}
	}
	return ""
}

// RequestWatchProgress implements storage.Interface: internal watches with ProgressNotify say how far they are.
func (s *Storage) RequestWatchProgress(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.opts.ProgressNotify {
			select {
			case w.progress <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

func (w *watcher) run(snapshot *store.Snapshot, sub *bus.Subscription) {
	defer close(w.ended)
	defer close(w.results)
	defer func() {
		w.storage.leave(w.selection)
		if !w.plain {
			w.storage.encoded.Add(-1)
		}
		w.storage.mu.Lock()
		delete(w.storage.watches, w)
		w.storage.mu.Unlock()
	}()
	defer w.cancel()
	defer sub.Close()

	if snapshot != nil && !w.sendInitial(snapshot) {
		return
	}
	utilflowcontrol.WatchInitialized(w.ctx)

	timer := time.NewTimer(w.untilBookmark(time.Now()))
	defer timer.Stop()
	bookmark := false
	for {
		events, progress, err := sub.Take()
		if err != nil {
			w.fail(err)
			return
		}
		for _, e := range events {
			if !w.sendEvent(e) {
				return
			}
		}
		if len(events) > 0 && !bookmark {
			// Events tell how far the watch is, except those that a selector keeps back.
			select {
			case <-timer.C:
				bookmark = true
			case <-w.progress:
				bookmark = true
			default:
				if w.ctx.Err() != nil {
					return
				}
				continue
			}
		}
		if bookmark {
			if !w.sendBookmark(max(progress, w.sent), false) {
				return
			}
			bookmark = false
			timer.Reset(w.untilBookmark(time.Now()))
			continue
		}
		select {
		case <-w.ctx.Done():
			return
		case <-sub.Wake():
		case <-timer.C:
			bookmark = true
		case <-w.progress:
			bookmark = true
		}
	}
}

// untilBookmark is the time until the next bookmark, very long for a watch that wants none.
func (w *watcher) untilBookmark(now time.Time) time.Duration {
	const never = 24 * time.Hour
	switch {
	case w.opts.ProgressNotify:
		return w.storage.backend.opts.ProgressInterval
	case !w.predicate.AllowWatchBookmarks:
		return never
	}
	wait := w.storage.backend.opts.BookmarkInterval
	if deadline, ok := w.ctx.Deadline(); ok {
		if last := deadline.Add(-lastBookmark).Sub(now); last > 0 {
			wait = min(wait, last)
		}
	}
	return wait
}

// sendInitial sends what there is as added, and the bookmark that ends it when the client wants that.
func (w *watcher) sendInitial(snapshot *store.Snapshot) bool {
	going := true
	var failed error
	visit := func(item *store.Item) bool {
		if !w.opts.Recursive && item.Key != w.key {
			return false
		}
		obj, ok := w.storage.cache.get(item.Key, item.Revision)
		if !ok {
			kv, err := item.Load()
			if err = w.storage.marked(err); err == nil {
				obj, err = w.storage.object(w.ctx, item.Key, item.Revision, kv.Value)
			}
			if err != nil {
				if w.storage.leavesOut(w.ctx, item.Key, item.Revision, err) {
					return w.opts.Recursive
				}
				failed = err
				return false
			}
		}
		if w.selects(obj) {
			going = w.send(watch.Event{Type: watch.Added, Object: shallowCopy(obj)})
		}
		return going && w.opts.Recursive
	}
	if err := snapshot.Ascend(w.key, "", visit); err != nil {
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		w.fail(failed)
		return false
	}
	if going && w.opts.SendInitialEvents != nil && *w.opts.SendInitialEvents && w.predicate.AllowWatchBookmarks {
		return w.sendBookmark(snapshot.Revision(), true)
	}
	return going
}

func (w *watcher) sendBookmark(revision uint64, endsInitial bool) bool {
	obj := w.storage.newFunc()
	err := w.storage.versioner.UpdateObject(obj, revision)
	if err == nil && endsInitial {
		err = storage.AnnotateInitialEventsEndBookmark(obj)
	}
	if err != nil {
		w.fail(fmt.Errorf("making a bookmark of %s: %w", w.storage.groupResource, err))
		return false
	}
	w.sent = revision
	return w.send(watch.Event{Type: watch.Bookmark, Object: obj})
}

func (w *watcher) send(e watch.Event) bool {
	select {
	case w.results <- e: // mostly there is room, and looking at one channel is cheaper than at two
		return true
	default:
	}
	select {
	case w.results <- e:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// fail sends an error as the watch's last event, except when the client has gone.
func (w *watcher) fail(err error) {
	if w.ctx.Err() != nil || errors.Is(err, bus.ErrClosed) {
		return
	}
	w.send(errorEvent(err))
}

func errorEvent(err error) watch.Event {
	var compacted *store.CompactedError
	if errors.As(err, &compacted) {
		err = apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", compacted.Requested, compacted.Compacted))
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return watch.Event{Type: watch.Error, Object: &s}
}

// failed is a watch that has nothing but an error.
type failed struct{ results chan watch.Event }

func failedWatch(err error) watch.Interface {
	f := &failed{results: make(chan watch.Event, 1)}
	f.results <- errorEvent(err)
	close(f.results)
	return f
}

func (f *failed) ResultChan() <-chan watch.Event { return f.results }
func (f *failed) Stop()                          {}

// timedObject implements storage.WatchEventWithRecordTime for internal watches that ask for it.
type timedObject struct {
	runtime.Object
	at time.Time
}

var _ storage.WatchEventWithRecordTime = (*timedObject)(nil)

func (t *timedObject) GetObjectMeta() metav1.Object {
	m, _ := meta.Accessor(t.Object)
	return m
}

func (t *timedObject) DeepCopyObject() runtime.Object {
	return &timedObject{Object: t.Object.DeepCopyObject(), at: t.at}
}

func (t *timedObject) RecordTime() time.Time  { return t.at }
func (t *timedObject) Unwrap() runtime.Object { return t.Object }
