package storage

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"

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

type sharedResultKey struct{}

// WithSharedResult lets the result of a write share what it holds with the
// storage: the caller promises to change nothing below the result's own fields.
func WithSharedResult(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharedResultKey{}, true)
}

type givenKey struct{}

// WithGivenObject lets a create or an update keep the object that it is given, as
// the one that all readers share, instead of decoding what it wrote. The caller
// promises that nobody writes to the object any more, and that asStored makes of it
// what decoding its encoding gives, but for empty maps and lists.
func WithGivenObject(ctx context.Context, asStored func(runtime.Object)) context.Context {
	return context.WithValue(ctx, givenKey{}, asStored)
}

type encodingKey struct{}

// Encoding is what a create or Replace encoded: the object, without its resource version.
type Encoding struct {
	data     []byte
	envelope *envelope
}

// Versioned is the encoding of the object with a resource version, as the storage's
// codec would make it. False: nothing was written, or not in protobuf.
func (e *Encoding) Versioned(resourceVersion string) ([]byte, bool) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || e.envelope == nil {
		return nil, false
	}
	return e.envelope.versioned(e.data, version)
}

// WithEncoding has a create or Replace leave in into what it encoded.
func WithEncoding(ctx context.Context, into *Encoding) context.Context {
	return context.WithValue(ctx, encodingKey{}, into)
}

// setResult gives the caller of a write what was stored.
func setResult(ctx context.Context, out, obj runtime.Object) error {
	if shared, _ := ctx.Value(sharedResultKey{}).(bool); shared {
		to, from := reflect.ValueOf(out), reflect.ValueOf(obj)
		if _, isMap := obj.(*unstructured.Unstructured); !isMap && to.Type() == from.Type() && to.Kind() == reflect.Pointer && !to.IsNil() {
			to.Elem().Set(from.Elem())
			return nil
		}
	}
	return setDeep(out, obj)
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
