package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"pintle.dev/pintle/kernel/store"
)

// Objects that cannot be read any more, because their key was lost or their bytes are damaged, can be found and deleted
// with the feature gate AllowUnsafeMalformedObjectDeletion (KEP-3926): reads of one name it as corrupt, lists name all
// of them, and a delete with ignoreStoreReadErrorWithClusterBreakingPotential removes one.

// corruptError says that a stored value was found and cannot be understood.
type corruptError struct {
	err error
	// decrypted: the value could be decrypted, but not decoded.
	decrypted bool
	revision  uint64
}

func (e *corruptError) Unwrap() error { return e.err }

func (e *corruptError) Error() string {
	what := "data from the storage is not transformable"
	if e.decrypted {
		what = "object not decodable"
	}
	return fmt.Sprintf("%s revision=%d: %v", what, e.revision, e.err)
}

// corruptTransformer marks what cannot be decrypted.
type corruptTransformer struct{ value.Transformer }

func (t corruptTransformer) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	out, stale, err := t.Transformer.TransformFromStorage(ctx, data, c)
	if err != nil {
		err = &corruptError{err: err}
	}
	return out, stale, err
}

// corruptCodec marks what cannot be decoded.
type corruptCodec struct{ runtime.Codec }

func (c corruptCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := c.Codec.Decode(data, defaults, into)
	if err != nil && !unconverted(err) {
		err = &corruptError{err: err, decrypted: true}
	}
	return obj, gvk, err
}

// unconverted says that a webhook, which the codec asks, could not convert a custom
// resource: the object itself is whole. The library has words for it and no type.
func unconverted(err error) bool { return strings.HasPrefix(err.Error(), "conversion webhook for ") }

// marked marks what the store itself found damaged.
func (s *Storage) marked(err error) error {
	if damaged := (*store.CorruptError)(nil); s.unsafeDeletes && errors.As(err, &damaged) {
		return &corruptError{err: err}
	}
	return err
}

// asCorrupt finds the mark in err and gives it the revision of the value.
func asCorrupt(err error, revision uint64) (*corruptError, bool) {
	var corrupt *corruptError
	if !errors.As(err, &corrupt) {
		return nil, false
	}
	if corrupt.decrypted && corrupt.revision == 0 {
		corrupt = &corruptError{err: corrupt.err, decrypted: true, revision: revision}
	}
	return corrupt, true
}

type withoutCorruptKey struct{}

// WithoutCorruptObjects makes lists and watches that are started with the context leave out objects that cannot be read,
// each with a line in the log, instead of failing. It is for what the server itself follows: one damaged object shall
// not keep all of its kind from it.
func WithoutCorruptObjects(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutCorruptKey{}, true)
}

// leavesOut says whether an object that err keeps from being read is left out under the context, and logs it.
func (s *Storage) leavesOut(ctx context.Context, key string, revision uint64, err error) bool {
	if without, _ := ctx.Value(withoutCorruptKey{}).(bool); !without {
		return false
	}
	if _, ok := asCorrupt(err, revision); !ok && !apierrors.IsStoreReadError(err) {
		return false
	}
	s.backend.opts.Logger.Error("an object cannot be read and counts as absent; read it through the API for what is wrong, "+
		"and delete it with ignoreStoreReadErrorWithClusterBreakingPotential or restore it", "key", key, "revision", revision, "error", err)
	return true
}

// Readable tells whether the resource's objects can be decrypted: not so when there are some and none of the first
// hundred can be. Those that are damaged otherwise do not count.
func (s *Storage) Readable(ctx context.Context) error {
	prefix, err := s.key(s.resourcePrefix, true)
	if err != nil {
		return err
	}
	snapshot, err := s.store.Snapshot(0)
	if err != nil {
		return err
	}
	l := lister{storage: s, ctx: ctx}
	tried := 0
	var sealed error
	if err := snapshot.Ascend(prefix, "", func(item *store.Item) bool {
		_, err := l.object(item)
		var corrupt *corruptError
		switch {
		case err == nil:
			sealed = nil
			return false
		case !errors.As(err, &corrupt):
			sealed = err
			return false
		case !corrupt.decrypted && !errors.As(err, new(*store.CorruptError)) && sealed == nil:
			sealed = fmt.Errorf("%s: %w", item.Key, err)
		}
		tried++
		return tried < maxCorrupt
	}); err != nil {
		return err
	}
	return sealed
}

// maxCorrupt is the number of corrupt objects at which a list gives up.
const maxCorrupt = 100

var errTooManyCorrupt = errors.New("too many errors, the list is truncated")

// corruptItems collects a list's objects that cannot be read.
type corruptItems struct {
	found []*storage.StorageError
	// abort is what ended the list before its end.
	abort error
}

// add takes the error that reading the item at key met; false ends the list.
func (c *corruptItems) add(key string, revision uint64, err error) bool {
	corrupt, ok := asCorrupt(err, revision)
	if !ok {
		c.abort = err
		return false
	}
	c.found = append(c.found, storage.NewCorruptObjError(key, corrupt))
	if len(c.found) >= maxCorrupt {
		c.abort = errTooManyCorrupt
		return false
	}
	return true
}

// err is nil when every item could be read; with corrupt ones it is a status that names them as causes.
func (c *corruptItems) err(resource schema.GroupResource) error {
	if len(c.found) == 0 {
		return c.abort
	}
	causes := make([]metav1.StatusCause, 0, len(c.found)+1)
	for _, err := range c.found {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: err.Key, Message: err.Error()})
	}
	switch {
	case errors.Is(c.abort, errTooManyCorrupt):
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: c.abort.Error()})
	case c.abort != nil:
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Message: c.abort.Error()})
	}
	message := fmt.Sprintf("failed to read one or more %s from the storage: %v", resource, c.found[0])
	if len(c.found) > 1 {
		message = fmt.Sprintf("%s (and %d more)", message, len(c.found)-1)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Details: &metav1.StatusDetails{Group: resource.Group, Kind: resource.Resource, Name: "list", Causes: causes},
		Message: message,
	}}
}

// deleteCorrupt deletes the value at key if it cannot be read, and refuses to delete one that can. It asks the store
// itself: what the cache holds says nothing about the bytes.
func (s *Storage) deleteCorrupt(ctx context.Context, key string, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc) error {
	for {
		revision, _ := s.store.Stat(key)
		kv, _, err := s.store.Get(key)
		if errors.Is(err, store.ErrKeyNotFound) {
			return storage.NewKeyNotFoundError(key, 0)
		}
		if err == nil {
			var data []byte
			revision = kv.Revision
			if data, _, err = s.open(ctx, key, kv.Value); err == nil {
				_, err = s.decode(data, kv.Revision)
			}
		} else if _, damaged := asCorrupt(s.marked(err), 0); !damaged {
			return err
		}
		switch {
		case err == nil:
			return storage.NewInvalidObjError(key, "unsafe deletion is not allowed because the object is decodable from storage")
		case unconverted(err):
			return err
		}
		if err := preconditions.Check(key, nil); err != nil {
			return err
		}
		if err := validate(ctx, nil); err != nil {
			return err
		}
		if done, err := s.remove(ctx, store.Write{Key: key, Expect: revision}); done || err != nil {
			return err
		}
	}
}
