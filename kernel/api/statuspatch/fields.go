package statuspatch

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

const (
	// maxKnown bounds the field sets that are remembered, and maxKnownSize the bytes of one.
	maxKnown, maxKnownSize = 1024, 16 << 10
	// maxUpdaters is how many managers of updates an object has at most. The library joins
	// the oldest of more.
	maxUpdaters = 10
	version     = "v1"
)

// standIn stands for the entries that a change of the status does not concern: without any
// entry the library would not begin to track a pod. No client can have its name.
var standIn = metav1.ManagedFieldsEntry{
	Manager: "\x00", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version,
	FieldsType: "FieldsV1", FieldsV1: fieldsOf(`{"f:metadata":{"f:name":{}}}`),
}

func fieldsOf(set string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawString(set)
	return f
}

// fields works out the managed fields of pods of which the status alone changes. The library
// decodes and encodes all entries of a pod. Those of others than writers of the status are
// the larger part, and come out as they went in.
type fields struct {
	manager *managedfields.FieldManager

	mu sync.RWMutex
	// untouched are the field sets, as encoded, that came out of the library as they went in,
	// and that have nothing of the status.
	untouched map[string]struct{}
}

// set gives next, which is live with another status, its managed fields.
func (f *fields) set(live, next *corev1.Pod, manager string) {
	if f.setOwn(live, next, manager) {
		return
	}
	f.manager.UpdateNoErrors(live, next, manager)
	if len(next.ManagedFields) == 0 || len(live.ManagedFields) > 0 && &live.ManagedFields[0] == &next.ManagedFields[0] {
		return // the library failed, and gave back what there was
	}
	f.learn(live.ManagedFields, next.ManagedFields)
	asStored(next.ManagedFields)
}

// setOwn is set where the entries are known that the change does not concern.
func (f *fields) setOwn(live, next *corev1.Pod, manager string) bool {
	others, own, ok := f.split(live.ManagedFields, cmp.Or(manager, "unknown"))
	if !ok {
		return false
	}
	was, now := &corev1.Pod{Status: live.Status}, &corev1.Pod{Status: next.Status}
	was.UID, now.UID = live.UID, live.UID
	was.ManagedFields = append(own, standIn)
	f.manager.UpdateNoErrors(was, now, manager)
	at := slices.IndexFunc(now.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == standIn.Manager })
	if at < 0 {
		return false // one of them cannot be read, which makes the library drop all
	}
	next.ManagedFields = append(others, slices.Delete(now.ManagedFields, at, at+1)...)
	slices.SortStableFunc(next.ManagedFields, inOrder)
	asStored(next.ManagedFields)
	return true
}

// split tells apart entries that a change of the status by a manager leaves as they are, and
// those that it may concern. It is false where that is not known of an entry, or where the
// number of entries or an entry's name matters.
func (f *fields) split(all []metav1.ManagedFieldsEntry, manager string) (others, own []metav1.ManagedFieldsEntry, ok bool) {
	if len(all) == 0 || len(all) >= maxUpdaters {
		return nil, nil, false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for i := range all {
		e := &all[i]
		readable := e.FieldsType == "FieldsV1" && e.FieldsV1 != nil && (e.Operation == metav1.ManagedFieldsOperationUpdate || e.Operation == metav1.ManagedFieldsOperationApply)
		if !readable || e.APIVersion != version || slices.ContainsFunc(all[:i], func(o metav1.ManagedFieldsEntry) bool { return sameManager(&o, e) }) {
			return nil, nil, false
		}
		set := e.FieldsV1.GetRawBytes()
		if ofStatus(set) {
			// One that has something else too needs the whole pod.
			if bytes.Contains(set, []byte(`"f:metadata"`)) || bytes.Contains(set, []byte(`"f:spec"`)) {
				return nil, nil, false
			}
			own = append(own, *e)
			continue
		}
		_, known := f.untouched[string(set)]
		if !known || e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "status" {
			return nil, nil, false
		}
		others = append(others, *e)
	}
	return others, own, true
}

func ofStatus(set []byte) bool { return bytes.Contains(set, []byte(`"f:status"`)) }

// sameManager says whether entries of one version are one to the library.
func sameManager(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource
}

// learn remembers what the library left as it was.
func (f *fields) learn(before, after []metav1.ManagedFieldsEntry) {
	for i := range before {
		e := &before[i]
		if e.APIVersion != version || e.FieldsV1 == nil {
			continue
		}
		set := e.FieldsV1.GetRawBytes()
		if len(set) > maxKnownSize || ofStatus(set) || !slices.ContainsFunc(after, func(o metav1.ManagedFieldsEntry) bool {
			return sameManager(&o, e) && o.APIVersion == e.APIVersion && o.FieldsType == e.FieldsType && o.FieldsV1 != nil && bytes.Equal(o.FieldsV1.GetRawBytes(), set)
		}) {
			continue
		}
		f.mu.Lock()
		if f.untouched == nil || len(f.untouched) >= maxKnown {
			f.untouched = map[string]struct{}{}
		}
		f.untouched[string(set)] = struct{}{}
		f.mu.Unlock()
	}
}

// inOrder compares entries as the library orders them.
func inOrder(a, b metav1.ManagedFieldsEntry) int {
	at := func(t *metav1.Time) int64 {
		if t == nil {
			return 0
		}
		return t.Unix()
	}
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(at(a.Time), at(b.Time)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

// asStored takes parts of seconds from the times of entries. The times that entries share with
// a pod that readers have stay as they are.
func asStored(entries []metav1.ManagedFieldsEntry) {
	for i := range entries {
		if t := entries[i].Time; t != nil && (t.Nanosecond() != 0 || t.Location() != time.Local) {
			whole := metav1.Unix(t.Unix(), 0)
			entries[i].Time = &whole
		}
	}
}
