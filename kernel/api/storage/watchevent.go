package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"pintle.dev/pintle/kernel/store"
)

func (w *watcher) selects(obj runtime.Object) bool {
	return w.all || w.matches(obj)
}

// verdict says whether the watch selects the object after an event and the one before it.
func (w *watcher) verdict(e *store.Event, obj, previous runtime.Object) (now, before bool) {
	switch {
	case w.all:
		return true, true
	case w.selection != nil:
		return w.selection.verdict(e, obj, previous)
	}
	return w.matches(obj), e.Type == store.Updated && w.matches(previous)
}

func (w *watcher) matches(obj runtime.Object) bool {
	if w.terms != nil {
		return meets(w.terms, obj)
	}
	return matches(w.predicate, obj)
}

// sendEvent sends what a commit means to this watch; false ends the watch.
func (w *watcher) sendEvent(e *store.Event) bool {
	obj, previous, err := w.objects(e)
	if err != nil {
		if w.storage.leavesOut(w.ctx, e.Key, e.Revision, err) {
			return true
		}
		w.fail(err)
		return false
	}
	now, before := w.verdict(e, obj, previous)
	if !now && (e.Type != store.Updated || !before) {
		return true
	}
	kind, leaving := watch.Modified, false
	switch {
	case e.Type == store.Deleted:
		kind = watch.Deleted
	case e.Type == store.Created || !before:
		kind = watch.Added
	case !now:
		kind, leaving = watch.Deleted, true
	}
	out, err := w.outgoing(e, obj, previous, leaving)
	if err != nil {
		w.fail(err)
		return false
	}
	if !w.send(watch.Event{Type: kind, Object: out}) {
		return false
	}
	w.sent = e.Revision
	return true
}

// outgoing gives the object to send: the one after the event or, where that left the watch's sight, the last one that
// the client could see, with the revision at which it left.
func (w *watcher) outgoing(e *store.Event, obj, previous runtime.Object, leaving bool) (runtime.Object, error) {
	last := func() (runtime.Object, error) {
		if !leaving {
			return obj, nil
		}
		out := shallowCopy(previous)
		return out, w.storage.versioner.UpdateObject(out, e.Revision)
	}
	made := func() (*sharedObject, error) {
		out, err := last()
		o := &sharedObject{obj: out}
		if a := w.storage.attached(e); a != nil && !leaving && w.storage.envelope != nil {
			o.data, o.revision, o.envelope = a.data, e.Revision, w.storage.envelope
		}
		return o, err
	}
	switch {
	case w.plain:
	case w.storage.encoded.Load() >= sharedFrom:
		both := w.storage.sharings(e)
		share := &both.shared
		if leaving {
			share = &both.leaving
		}
		return share.get(made)
	case !leaving:
		if o, err := made(); err == nil && len(o.data) > 0 {
			return storedObject{o}, nil
		}
	}
	out, err := last()
	if err != nil {
		return nil, err
	}
	if !leaving && !w.unsent {
		out = shallowCopy(out)
	}
	if w.opts.RecordTimestamps {
		out = &timedObject{Object: out, at: time.Now()}
	}
	return out, nil
}

// attached is what the request that wrote an event left with it, nil when there is nothing or it is another storage's.
func (s *Storage) attached(e *store.Event) *attachment {
	if a, ok := e.Attachment.(*attachment); ok && a.owner == s {
		return a
	}
	return nil
}

// objects gives the immutable objects of an event: after it (at a delete: the last one, with the delete's resource
// version) and, for an update under a selector, before it.
func (w *watcher) objects(e *store.Event) (obj, previous runtime.Object, err error) {
	s := w.storage
	if a := s.attached(e); a != nil && (a.previous != nil || e.Type == store.Created) {
		return a.obj, a.previous, nil
	}
	if e.Type != store.Deleted {
		if obj, err = s.object(w.ctx, e.Key, e.Revision, e.Value); err != nil {
			return nil, nil, err
		}
	}
	if e.Type == store.Created || e.Type == store.Updated && w.all {
		return obj, nil, nil
	}
	if previous, err = s.objectBefore(w.ctx, e); err != nil {
		if e.Type == store.Deleted {
			err = lastObjectError(err)
		}
		return nil, nil, err
	}
	if e.Type == store.Deleted {
		obj = shallowCopy(previous)
		if err := s.versioner.UpdateObject(obj, e.Revision); err != nil {
			return nil, nil, err
		}
	}
	return obj, previous, nil
}

// objectBefore gives the object that the event replaced or deleted.
func (s *Storage) objectBefore(ctx context.Context, e *store.Event) (runtime.Object, error) {
	if obj, ok := s.cache.get(e.Key, e.PreviousRevision); ok {
		return obj, nil
	}
	kv, err := s.store.GetAt(e.Key, e.Revision-1)
	if err != nil {
		return nil, err
	}
	return s.object(ctx, e.Key, kv.Revision, kv.Value)
}

// lastObjectError: the key is gone, but what it held cannot be read.
func lastObjectError(err error) error {
	var compacted *store.CompactedError
	if errors.As(err, &compacted) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", err),
	}}
}
