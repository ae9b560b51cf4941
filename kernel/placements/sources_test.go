package placements

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// fixed is a source whose objects come in a given order and never change, so
// that node indexes are the same in every run.
type fixed struct{ list runtime.Object }

func (f fixed) List(metav1.ListOptions) (runtime.Object, error) {
	accessor, err := meta.ListAccessor(f.list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion("1")
	return f.list, nil
}

func (f fixed) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// IsWatchListSemanticsUnSupported tells reflectors to list first.
func (f fixed) IsWatchListSemanticsUnSupported() bool { return true }
