package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const (
	index        = "pintle.dev/controller"
	orphanPrefix = "orphan/"
)

// Index adds the index by controller to a shared informer, once, however many
// controllers ask.
func Index(informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{index: keys})
	if _, there := informer.GetIndexer().GetIndexers()[index]; there {
		return nil
	}
	return err
}

func keys(obj any) ([]string, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}, nil
	}
	return []string{orphanPrefix + o.GetNamespace()}, nil
}

// Children returns the cached objects whose controller has the UID.
func Children[T any](indexer cache.Indexer, owner types.UID) ([]T, error) {
	return byIndex[T](indexer, string(owner))
}

// Orphans returns the cached objects of the namespace without a controller.
func Orphans[T any](indexer cache.Indexer, namespace string) ([]T, error) {
	return byIndex[T](indexer, orphanPrefix+namespace)
}

func byIndex[T any](indexer cache.Indexer, key string) ([]T, error) {
	found, err := indexer.ByIndex(index, key)
	if err != nil {
		return nil, err
	}
	list := make([]T, 0, len(found))
	for _, obj := range found {
		if t, ok := obj.(T); ok {
			list = append(list, t)
		}
	}
	return list, nil
}
