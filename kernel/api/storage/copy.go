package storage

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// shallowCopy gives an object whose top-level fields and metadata fields can be set without touching the original.
func shallowCopy(obj runtime.Object) runtime.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(metadata)
		}
		return &unstructured.Unstructured{Object: content}
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return obj.DeepCopyObject()
	}
	out := reflect.New(v.Elem().Type())
	out.Elem().Set(v.Elem())
	return out.Interface().(runtime.Object)
}

// setDeep sets what out points to to a deep copy of obj, which must be of the same type.
func setDeep(out, obj runtime.Object) error {
	v, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	from := reflect.ValueOf(obj.DeepCopyObject()).Elem()
	if !from.Type().AssignableTo(v.Type()) {
		return fmt.Errorf("unable to set %s to the stored %s", v.Type(), from.Type())
	}
	v.Set(from)
	return nil
}

// shallowItem gives an object whose value can be put into a list: a struct is copied by that, a map is not.
func shallowItem(obj runtime.Object) runtime.Object {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return shallowCopy(obj)
	}
	return obj
}
