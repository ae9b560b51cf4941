package api

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/builder3"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// typeConverter reads managed fields against the definitions of one group
// version. It is built when the first object is written.
type typeConverter struct {
	build func() (managedfields.TypeConverter, error)
	types sync.Map // schema.GroupVersionKind to *typed.ParseableType
}

func (d *documents) typeConverter(names []string) managedfields.TypeConverter {
	return &typeConverter{build: sync.OnceValues(func() (managedfields.TypeConverter, error) {
		schemas, err := builder3.BuildOpenAPIDefinitionsForResources(d.v3Config(), names...)
		if err != nil {
			return nil, fmt.Errorf("openapi models for managed fields: %w", err)
		}
		return managedfields.NewTypeConverter(schemas, false)
	})}
}

func (c *typeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	// The first of the work that a write does on a goroutine of its own.
	deepen(len(opts))
	if t := c.known(obj, opts); t != nil {
		v, err := value.NewValueReflect(obj)
		if err != nil {
			return nil, fmt.Errorf("read %T for its managed fields: %w", obj, err)
		}
		return typed.AsTypedUnvalidated(v, t.Schema, t.TypeRef), nil
	}
	tc, err := c.build()
	if err != nil {
		return nil, err
	}
	tv, err := tc.ObjectToTyped(obj, opts...)
	if err == nil {
		c.types.LoadOrStore(obj.GetObjectKind().GroupVersionKind(), &typed.ParseableType{Schema: tv.Schema(), TypeRef: tv.TypeRef()})
	}
	return tv, err
}

// known returns the type of an object that need not be walked to see whether
// it fits: a Go value whose type generated the schema and that may hold
// duplicates, which is what every write that is no apply compares. A list item
// without its key is found by the comparison itself. The walk was a twentieth
// of the processor time of a create.
func (c *typeConverter) known(obj runtime.Object, opts []typed.ValidationOptions) *typed.ParseableType {
	if len(opts) != 1 || opts[0] != typed.AllowDuplicates {
		return nil
	}
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return nil
	}
	t, ok := c.types.Load(obj.GetObjectKind().GroupVersionKind())
	if !ok {
		return nil
	}
	return t.(*typed.ParseableType)
}

func (c *typeConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	tc, err := c.build()
	if err != nil {
		return nil, err
	}
	return tc.TypedToObject(v)
}
