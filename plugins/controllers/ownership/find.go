package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// Cached returns the cached object of the key, namespace/name; the zero T if there is
// none.
func Cached[T any](store cache.Store, key string) (object T) {
	obj, there, err := store.GetByKey(key)
	if err != nil || !there {
		return object
	}
	object, _ = obj.(T)
	return object
}

// Owner returns the cached object of the kind that a controller reference means, by
// name and UID; the zero T if it means none, or is nil.
func Owner[T interface {
	comparable
	metav1.Object
}](store cache.Store, kind, namespace string, ref *metav1.OwnerReference) (none T) {
	if ref == nil || ref.Kind != kind {
		return none
	}
	owner := Cached[T](store, namespace+"/"+ref.Name)
	if owner == none || owner.GetUID() != ref.UID {
		return none
	}
	return owner
}

// Adopters returns the cached objects that might adopt an orphan: those of its
// namespace whose selector is not empty and matches its labels.
func Adopters[T metav1.Object](indexer cache.Indexer, orphan metav1.Object, selector func(T) *metav1.LabelSelector) (list []T) {
	objs, err := indexer.ByIndex(cache.NamespaceIndex, orphan.GetNamespace())
	if err != nil {
		return nil
	}
	for _, obj := range objs {
		object, ok := obj.(T)
		if !ok {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(selector(object))
		if err == nil && !s.Empty() && s.Matches(labels.Set(orphan.GetLabels())) {
			list = append(list, object)
		}
	}
	return list
}
