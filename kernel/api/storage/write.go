package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/store"
)

// Create implements storage.Interface.
func (s *Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if version, err := s.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return fmt.Errorf("PrepareObjectForStorage failed: %w", err)
	}
	data, err := s.encode(obj)
	if err != nil {
		return err
	}
	if into, ok := ctx.Value(encodingKey{}).(*Encoding); ok {
		*into = Encoding{data, s.envelope}
	}
	created := obj
	if asStored, ok := ctx.Value(givenKey{}).(func(runtime.Object)); ok {
		asStored(obj)
		err = s.commitObject(ctx, key, obj, data, true, nil, 0, ttl)
	} else {
		created, err = s.commit(ctx, key, data, nil, 0, ttl)
	}
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return storage.NewKeyExistsError(key, 0)
	case err != nil:
		return err
	case out != nil:
		return setResult(ctx, out, created)
	}
	return nil
}

// CreateAll creates n objects at keys that have none. Each is asked for once, in order, with its key, and may be used
// anew for the next: what it points to is not written to any more. It is what decoding its encoding gives. The objects
// are not kept decoded, as what comes in such numbers is read by few: watches that are there get a copy, others decode.
// The errors are in the order of the objects; one that could not be made has its own.
func (s *Storage) CreateAll(ctx context.Context, n int, object func(i int) (key string, obj runtime.Object, err error), ttl uint64) []error {
	failures := make([]error, n)
	writes, of := make([]store.Write, 0, n), make([]int, 0, n)
	watched := s.watched()
	for i := range n {
		key, obj, err := object(i)
		if err == nil {
			var w store.Write
			if w, err = s.creating(ctx, key, obj, ttl, watched); err == nil {
				writes, of = append(writes, w), append(of, i)
			}
		}
		failures[i] = err
	}
	for k, err := range s.store.CommitAll(ctx, writes) {
		i := of[k]
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict):
			failures[i] = storage.NewKeyExistsError(writes[k].Key, 0)
		case err != nil:
			failures[i] = commitError(err)
		}
	}
	return failures
}

// creating is the write of a new object, which it does not keep.
func (s *Storage) creating(ctx context.Context, key string, obj runtime.Object, ttl uint64, watched bool) (w store.Write, err error) {
	if key, err = s.key(key, false); err != nil {
		return w, err
	}
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return w, fmt.Errorf("PrepareObjectForStorage failed: %w", err)
	}
	data, err := s.encode(obj)
	if err != nil {
		return w, err
	}
	stored, err := s.seal(ctx, key, data)
	if err != nil {
		return w, err
	}
	if watched {
		return s.writeOf(key, shallowCopy(obj), stored, data, nil, 0, ttl), nil
	}
	return store.Write{Key: key, Value: stored, TTL: ttlOf(ttl), Topics: s.topics(obj)}, nil
}

// commit writes an encoded object over the one of revision expect (0: none) and returns it, decoded and immutable.
func (s *Storage) commit(ctx context.Context, key string, data []byte, previous runtime.Object, expect, ttl uint64) (runtime.Object, error) {
	obj, err := s.decoded(data)
	if err != nil {
		return nil, err
	}
	if err := s.commitObject(ctx, key, obj, data, false, previous, expect, ttl); err != nil {
		return nil, err
	}
	return obj, nil
}

// commitObject writes an object that is what decoding data gives, and immutable from now on. encoded says that data is
// the encoding of obj itself.
func (s *Storage) commitObject(ctx context.Context, key string, obj runtime.Object, data []byte, encoded bool, previous runtime.Object, expect, ttl uint64) error {
	stored, err := s.seal(ctx, key, data)
	if err != nil {
		return err
	}
	var own []byte
	if encoded {
		own = data
	}
	revision, err := s.store.Commit(ctx, s.writeOf(key, obj, stored, own, previous, expect, ttl))
	if err != nil {
		return commitError(err)
	}
	s.keep(key, revision, obj, data)
	s.specs.forget(expect)
	return nil
}

// writeOf is the write of an object. own is the encoding of obj, where it is known to be that.
func (s *Storage) writeOf(key string, obj runtime.Object, stored, own []byte, previous runtime.Object, expect, ttl uint64) store.Write {
	if len(own) == 0 || len(own) != len(stored) || &own[0] != &stored[0] {
		own = nil // what is encrypted would be kept twice
	}
	return store.Write{
		Key: key, Value: stored, Expect: expect, TTL: ttlOf(ttl),
		MakesRoom:  ending(obj),
		Topics:     s.topics(obj, previous),
		Attachment: &attachment{owner: s, obj: obj, previous: previous, data: own},
		OnRevision: func(revision uint64) { _ = s.versioner.UpdateObject(obj, revision) },
	}
}

// ending says whether an object is on its way to its delete: its finalizers and its status are written until then, and it
// must be able to end on a full disk.
func ending(obj runtime.Object) bool {
	m, err := meta.Accessor(obj)
	return err == nil && m.GetDeletionTimestamp() != nil
}

// watched reports whether there is any watch.
func (s *Storage) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches) > 0
}

func ttlOf(seconds uint64) int64 { return int64(min(seconds, math.MaxInt32)) }

// state is what is stored at a key.
type state struct {
	revision uint64
	// data is the decrypted encoding; stale means that it should be encrypted anew.
	data  []byte
	stale bool
	// obj is immutable, nil when the key has no value.
	obj runtime.Object
}

// read reads the latest state of a key.
func (s *Storage) read(ctx context.Context, key string) (*state, error) {
	kv, _, err := s.store.Get(key)
	if errors.Is(err, store.ErrKeyNotFound) {
		return &state{}, nil
	}
	if err != nil {
		return nil, err
	}
	st := &state{revision: kv.Revision}
	if st.data, st.stale, err = s.open(ctx, key, kv.Value); err != nil {
		return nil, storage.NewInternalError(err)
	}
	obj, ok := s.cache.get(key, kv.Revision)
	if !ok {
		if obj, err = s.decode(st.data, kv.Revision); err != nil {
			return nil, err
		}
		s.keep(key, kv.Revision, obj, st.data)
	}
	st.obj = obj
	return st, nil
}

// known is read, but without data where the object is in the cache: then nothing is read from the store but its index.
func (s *Storage) known(ctx context.Context, key string) (*state, error) {
	revision, _ := s.store.Stat(key)
	if obj, ok := s.cache.get(key, revision); ok {
		return &state{revision: revision, obj: obj}, nil
	}
	return s.read(ctx, key)
}

// GuaranteedUpdate implements storage.Interface. The suggestion is not used: reading the latest state costs a few
// microseconds here, less than finding out that a suggestion was stale.
func (s *Storage) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(destination); err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	for {
		st, err := s.read(ctx, key)
		if err != nil {
			return err
		}
		var input runtime.Object
		switch {
		case st.obj != nil:
			input = st.obj.DeepCopyObject()
		case !ignoreNotFound:
			return storage.NewKeyNotFoundError(key, 0)
		default:
			input = s.newFunc()
			if err := runtime.SetZeroValue(input); err != nil {
				return err
			}
		}
		if err := preconditions.Check(key, input); err != nil {
			return err
		}
		updated, ttl, err := tryUpdate(input, storage.ResponseMeta{ResourceVersion: st.revision})
		if err != nil {
			return err
		}
		if err := s.versioner.PrepareObjectForStorage(updated); err != nil {
			return fmt.Errorf("PrepareObjectForStorage failed: %w", err)
		}
		data, err := s.encode(updated)
		if err != nil {
			return err
		}
		if st.obj != nil && !st.stale && bytes.Equal(data, st.data) {
			// Nothing changes; but say so only of what is still there.
			if revision, _ := s.store.Stat(key); revision != st.revision {
				continue
			}
			return setDeep(destination, st.obj)
		}
		var seconds uint64
		if ttl != nil {
			seconds = *ttl
		}
		obj := updated
		if asStored, ok := ctx.Value(givenKey{}).(func(runtime.Object)); ok {
			asStored(obj)
			err = s.commitObject(ctx, key, obj, data, true, st.obj, st.revision, seconds)
		} else {
			obj, err = s.commit(ctx, key, data, st.obj, st.revision, seconds)
		}
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict):
			continue
		case err != nil:
			return err
		}
		return setResult(ctx, destination, obj)
	}
}

// Replacement is what Replace does to one key.
type Replacement struct {
	Key           string
	Preconditions *storage.Preconditions
	Change        func(runtime.Object) (runtime.Object, error)
	// Binds says that Change sets nothing of a pod's spec but the name of its node, which it had none of.
	Binds bool
	// Known is the object as the caller has it from this storage; nil: it has none. ReplaceAll takes it for the latest
	// where none is in the cache, and the write fails if it is not.
	Known runtime.Object
}

// Replace writes what change makes of the object at key, without the copies and the decoding of GuaranteedUpdate.
// What change gets is immutable and shared; what it returns is a new object that may share with it, and that is as
// decoding its own encoding would give it: no time has a fraction of a second, no map or list is empty but not nil.
// It is called again when another write came before. Errors are those of GuaranteedUpdate.
func (s *Storage) Replace(ctx context.Context, key string, preconditions *storage.Preconditions, change func(runtime.Object) (runtime.Object, error)) error {
	return s.replace(ctx, Replacement{Key: key, Preconditions: preconditions, Change: change})
}

func (s *Storage) replace(ctx context.Context, r Replacement) error {
	for {
		w, err := s.replacing(ctx, r, false)
		if err != nil {
			return err
		}
		_, err = s.store.Commit(ctx, w.Write)
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict):
			continue
		case err != nil:
			return commitError(err)
		}
		s.replaced(w)
		return nil
	}
}

// ReplaceAll is Replace of several keys, which are written together. The errors are in the order of the replacements.
func (s *Storage) ReplaceAll(ctx context.Context, list []Replacement) []error {
	failures := make([]error, len(list))
	all, writes, of := make([]replacing, 0, len(list)), make([]store.Write, 0, len(list)), make([]int, 0, len(list))
	for i, r := range list {
		var w replacing
		if w, failures[i] = s.replacing(ctx, r, true); failures[i] != nil {
			w, failures[i] = s.replacing(ctx, r, false)
		}
		if failures[i] == nil {
			all, writes, of = append(all, w), append(writes, w.Write), append(of, i)
		}
	}
	for k, err := range s.store.CommitAll(ctx, writes) {
		i := of[k]
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict):
			failures[i] = s.replace(ctx, list[i])
		case err != nil:
			failures[i] = commitError(err)
		default:
			s.replaced(all[k])
		}
	}
	return failures
}

// replacing is a replacement that is to be written.
type replacing struct {
	store.Write
	obj  runtime.Object
	size int
}

// replacing makes a replacement. With guess that is of what is in the cache or known: an error may be one of an older
// object then, and the write expects that one, so that it fails if another came since.
func (s *Storage) replacing(ctx context.Context, r Replacement, guess bool) (w replacing, err error) {
	key, err := s.key(r.Key, false)
	if err != nil {
		return w, err
	}
	st := &state{}
	if guess {
		st.obj, st.revision, guess = s.latest(key, r.Known)
	}
	if !guess {
		if st, err = s.known(ctx, key); err != nil {
			return w, err
		}
	}
	if st.obj == nil {
		return w, storage.NewKeyNotFoundError(key, 0)
	}
	if err := r.Preconditions.Check(key, st.obj); err != nil {
		return w, err
	}
	if w.obj, err = r.Change(st.obj); err != nil {
		return w, err
	}
	if err := s.versioner.PrepareObjectForStorage(w.obj); err != nil {
		return w, fmt.Errorf("PrepareObjectForStorage failed: %w", err)
	}
	var data []byte
	bound := false
	if r.Binds {
		data, bound = s.specs.encodeBound(st.revision, w.obj)
	}
	if !bound {
		if data, err = s.encode(w.obj); err != nil {
			return w, err
		}
	}
	if into, ok := ctx.Value(encodingKey{}).(*Encoding); ok {
		*into = Encoding{data, s.envelope}
	}
	stored, err := s.seal(ctx, key, data)
	if err != nil {
		return w, err
	}
	w.Write, w.size = s.writeOf(key, w.obj, stored, data, st.obj, st.revision, 0), len(data)
	return w, nil
}

// latest is what is in the cache of a key or, if there is nothing, known: which of both may have been written since.
func (s *Storage) latest(key string, known runtime.Object) (obj runtime.Object, revision uint64, ok bool) {
	if obj, revision, ok = s.cache.latest(key); ok || known == nil {
		return obj, revision, ok
	}
	revision, err := s.versioner.ObjectResourceVersion(known)
	return known, revision, err == nil && revision != 0
}

// replaced keeps what was written.
func (s *Storage) replaced(w replacing) {
	if revision, err := s.versioner.ObjectResourceVersion(w.obj); err == nil {
		s.cache.put(w.Key, revision, w.obj, w.size)
	}
}

// Delete implements storage.Interface. As GuaranteedUpdate, it does not need the suggestion.
func (s *Storage) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(out); err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	if s.unsafeDeletes && opts.ExpectTransformOrDecodeError {
		return s.deleteCorrupt(ctx, key, preconditions, validate)
	}
	for {
		st, err := s.read(ctx, key)
		if err != nil {
			return err
		}
		if st.obj == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		if err := preconditions.Check(key, st.obj); err != nil {
			return err
		}
		if err := validate(ctx, st.obj); err != nil {
			return err
		}
		last := shallowCopy(st.obj)
		done, err := s.removeAs(ctx, key, st, last)
		if err != nil {
			return err
		}
		if done {
			return setResult(ctx, out, last)
		}
	}
}

// Remove deletes what is at key. last makes of it, which is immutable and shared, the object that watches see at its
// end: a new one, which may share with it, and which gets the resource version of the delete. It is called again when
// another write came before. Errors are those of Delete.
func (s *Storage) Remove(ctx context.Context, key string, last func(runtime.Object) (runtime.Object, error)) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	for {
		st, err := s.known(ctx, key)
		if err != nil {
			return err
		}
		if st.obj == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		obj, err := last(st.obj)
		if err != nil {
			return err
		}
		if done, err := s.removeAs(ctx, key, st, obj); done || err != nil {
			return err
		}
	}
}

// removeAs deletes what is at key as it was read, with last as its last object; it is not done when another write came
// before.
func (s *Storage) removeAs(ctx context.Context, key string, st *state, last runtime.Object) (done bool, err error) {
	return s.remove(ctx, store.Write{
		Key: key, Expect: st.revision,
		Topics:     s.topics(last),
		Attachment: &attachment{owner: s, obj: last, previous: st.obj},
		OnRevision: func(revision uint64) { _ = s.versioner.UpdateObject(last, revision) },
	})
}

// remove deletes what w expects at its key; it is not done when another write came before.
func (s *Storage) remove(ctx context.Context, w store.Write) (done bool, err error) {
	w.Delete = true
	_, err = s.store.Commit(ctx, w)
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return false, nil
	case err != nil:
		return false, commitError(err)
	}
	s.cache.drop(w.Key)
	s.specs.forget(w.Expect)
	return true, nil
}
