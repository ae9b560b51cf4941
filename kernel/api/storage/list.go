package storage

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/store"
)

// Get implements storage.Interface.
func (s *Storage) Get(ctx context.Context, path string, opts storage.GetOptions, out runtime.Object) error {
	key, err := s.key(path, false)
	if err != nil {
		return err
	}
	revision, current := s.store.Stat(key)
	if err := s.checkNotOlder(opts.ResourceVersion, current); err != nil {
		return err
	}
	if revision != 0 {
		if obj, ok := s.cache.get(key, revision); ok {
			return setDeep(out, obj)
		}
	}
	kv, _, err := s.store.Get(key)
	switch {
	case errors.Is(err, store.ErrKeyNotFound):
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	case err != nil:
		if corrupt, ok := asCorrupt(s.marked(err), 0); ok {
			return storage.NewCorruptObjError(path, corrupt)
		}
		return err
	}
	obj, err := s.object(ctx, key, kv.Revision, kv.Value)
	if err != nil {
		if corrupt, ok := asCorrupt(err, kv.Revision); ok {
			return storage.NewCorruptObjError(path, corrupt)
		}
		return err
	}
	return setDeep(out, obj)
}

// checkNotOlder refuses a read that wants what is not there yet.
func (s *Storage) checkNotOlder(resourceVersion string, current uint64) error {
	if resourceVersion == "" {
		return nil
	}
	minimum, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if minimum > current {
		return storage.NewTooLargeResourceVersionError(minimum, current, tooLargeRetry)
	}
	return nil
}

// tooLargeRetry is after how many seconds a client is to ask again for a revision that is not there yet, as upstream's
// cacher tells.
const tooLargeRetry = 1

// The words of expired lists, equal to upstream's.
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter."
	continueInconsistent = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// listError gives a store error the form that clients of lists know.
func listError(err error, from, prefix string) error {
	var compacted *store.CompactedError
	var future *store.FutureRevisionError
	switch {
	case errors.As(err, &future):
		return storage.NewTooLargeResourceVersionError(future.Requested, future.Current, tooLargeRetry)
	case !errors.As(err, &compacted):
		return err
	case from == "":
		return apierrors.NewResourceExpired(listExpired)
	}
	// -1: the client may go on at the latest revision if it can bear that.
	token, err := storage.EncodeContinue(from, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(continueExpired)
	}
	expired := apierrors.NewResourceExpired(continueInconsistent)
	expired.ErrStatus.ListMeta.Continue = token
	return expired
}

// GetList implements storage.Interface.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	prefix, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	l := lister{storage: s, ctx: ctx, predicate: opts.Predicate}
	if err := l.into(listObj); err != nil {
		return err
	}
	revision, from, err := storage.ValidateListOptions(prefix, s.versioner, opts)
	if err != nil {
		return err
	}
	snapshot, err := s.store.Snapshot(uint64(revision))
	if err != nil {
		return listError(err, from, prefix)
	}
	if revision == 0 {
		if err := s.checkNotOlder(opts.ResourceVersion, snapshot.Revision()); err != nil && opts.Predicate.Continue == "" {
			return err
		}
		revision = int64(snapshot.Revision())
	}

	if opts.Recursive && opts.Predicate.Empty() && opts.Predicate.Limit == 0 && l.n == 0 {
		// One allocation of the right size; counting is cheap where it is a walk through memory.
		n, err := snapshot.Count(prefix, from)
		if err != nil {
			return listError(err, from, prefix)
		}
		l.reserve(int(n))
	}
	if opts.Recursive {
		err = snapshot.Ascend(prefix, from, l.visit)
	} else {
		err = snapshot.Ascend(prefix, "", func(item *store.Item) bool {
			if item.Key == prefix {
				l.visit(item)
			}
			return false // only the key itself, which comes first
		})
	}
	if err != nil && l.corrupt.abort == nil {
		l.corrupt.abort = err
	}
	if err = l.corrupt.err(s.groupResource); err != nil {
		return listError(err, from, prefix)
	}

	var remaining int64
	if l.more && opts.Predicate.Empty() {
		if remaining, err = snapshot.Count(prefix, from); err != nil {
			return listError(err, from, prefix)
		}
	}
	token, remainingItems, err := storage.PrepareContinueToken(l.last, prefix, revision, remaining, l.more, opts)
	if err != nil {
		return err
	}
	if err := s.versioner.UpdateList(listObj, uint64(revision), token, remainingItems); err != nil {
		return err
	}
	opts.Predicate.SetShardInfoOnList(listObj)
	return nil
}

// lister collects the items of a list.
type lister struct {
	storage   *Storage
	ctx       context.Context
	predicate storage.SelectionPredicate
	// One of the two takes the items: the slice of a list type, or a list of encoded ones.
	items   reflect.Value
	encoded *EncodedList
	// n is the number of items taken, seen of those looked at.
	n, seen int
	// last is the last key looked at; more is set when the limit was reached before the end.
	last string
	more bool
	// corrupt has what went wrong.
	corrupt corruptItems
}

// into sets the list that takes the items after those that it has.
func (l *lister) into(list runtime.Object) error {
	if e, ok := list.(*EncodedList); ok {
		l.encoded, l.n = e, len(e.items)
		l.storage.encodings.touch()
		return nil
	}
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	if l.items, err = conversion.EnforcePtr(ptr); err != nil || l.items.Kind() != reflect.Slice {
		return fmt.Errorf("need ptr to slice: %v", err)
	}
	l.n = l.items.Len()
	if l.items.IsNil() {
		l.reserve(0)
	}
	return nil
}

// reserve makes room for n items in an empty list.
func (l *lister) reserve(n int) {
	if l.encoded != nil {
		l.encoded.items = make([][]byte, 0, n)
		return
	}
	l.items.Set(reflect.MakeSlice(l.items.Type(), 0, n))
}

func (l *lister) visit(item *store.Item) bool {
	if l.predicate.Limit > 0 && int64(l.n) >= l.predicate.Limit {
		l.more = true
		return false
	}
	l.last = item.Key
	if l.seen++; l.seen%64 == 0 && l.ctx.Err() != nil {
		l.corrupt.abort = storage.NewTimeoutError(item.Key, "request did not complete within requested timeout")
		return false
	}
	all := l.predicate.Empty()
	if all && l.encoded != nil && l.known(item) {
		return true
	}
	obj, err := l.object(item)
	if err != nil {
		return l.storage.leavesOut(l.ctx, item.Key, item.Revision, err) || l.corrupt.add(item.Key, item.Revision, err)
	}
	if !all {
		if matched, err := l.predicate.Matches(obj); err != nil || !matched {
			return true
		}
	}
	if err := l.take(item, obj, all); err != nil {
		l.corrupt.abort = err
		return false
	}
	return true
}

// known takes the item if its encoding is kept.
func (l *lister) known(item *store.Item) bool {
	raw, ok := l.storage.encodings.get(item.Key, item.Revision, l.encoded.form)
	if ok {
		l.encoded.items = append(l.encoded.items, raw)
		l.n++
	}
	return ok
}

// take adds an object. asked tells that its encoding is not kept.
func (l *lister) take(item *store.Item, obj runtime.Object, asked bool) error {
	if l.encoded != nil {
		if !asked && l.known(item) {
			return nil
		}
		raw, err := l.encoded.form.encode(obj)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", item.Key, err)
		}
		l.storage.encodings.put(item.Key, item.Revision, l.encoded.form, raw)
		l.encoded.items = append(l.encoded.items, raw)
		l.n++
		return nil
	}
	if l.n == l.items.Cap() {
		l.items.Grow(max(l.n, 16))
	}
	l.items.SetLen(l.n + 1)
	l.items.Index(l.n).Set(reflect.ValueOf(shallowItem(obj)).Elem())
	l.n++
	return nil
}

func (l *lister) object(item *store.Item) (runtime.Object, error) {
	s := l.storage
	if obj, ok := s.cache.get(item.Key, item.Revision); ok {
		return obj, nil
	}
	kv, err := item.Load()
	if err != nil {
		return nil, s.marked(err)
	}
	data, _, err := s.open(l.ctx, item.Key, kv.Value)
	if err != nil {
		return nil, storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", item.Key, err))
	}
	obj, err := s.decode(data, item.Revision)
	if err != nil {
		return nil, err
	}
	s.keep(item.Key, item.Revision, obj, data)
	return obj, nil
}
