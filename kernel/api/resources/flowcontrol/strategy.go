package flowcontrol

import (
	"context"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"pintle.dev/pintle/kernel/api/resources"
)

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)

// object is a pointer to one of the two types.
type object interface {
	metav1.Object
	runtime.Object
}

// parts reach the spec and the status of a type, which both have.
type parts[T object] struct {
	spec       func(T) any
	keepSpec   func(o, from T)
	keepStatus func(o, from T)
	noStatus   func(T)
}

// strategy updates the main resource of a kind.
type strategy[T object] struct {
	gvk      schema.GroupVersionKind
	parts    parts[T]
	validate func(T) field.ErrorList
}

// statusStrategy updates the status alone.
type statusStrategy[T object] struct {
	strategy[T]
	validateStatus func(T) field.ErrorList
}

var (
	_ resources.Strategy       = strategy[*flowcontrolv1.FlowSchema]{}
	_ rest.ResetFieldsStrategy = strategy[*flowcontrolv1.FlowSchema]{}
	_ resources.Strategy       = statusStrategy[*flowcontrolv1.FlowSchema]{}
	_ rest.ResetFieldsStrategy = statusStrategy[*flowcontrolv1.FlowSchema]{}
)

func (s strategy[T]) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(T); !ok {
		return nil, false, fmt.Errorf("%T is not a %s", obj, s.gvk.Kind)
	}
	return []schema.GroupVersionKind{s.gvk}, false, nil
}

func (s strategy[T]) Recognizes(gvk schema.GroupVersionKind) bool { return gvk == s.gvk }
func (strategy[T]) GenerateName(prefix string) string {
	return names.SimpleNameGenerator.GenerateName(prefix)
}
func (strategy[T]) NamespaceScoped() bool                         { return false }
func (strategy[T]) AllowCreateOnUpdate(context.Context) bool      { return false }
func (strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return true }

func (s strategy[T]) reset(paths ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, p := range paths {
		set.Insert(fieldpath.MakePathOrDie(p))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.gvk.GroupVersion().String()): set}
}

func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.reset("status")
}

func (s strategy[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	o := obj.(T)
	s.parts.noStatus(o)
	o.SetGeneration(1)
}

func (s strategy[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, before := obj.(T), old.(T)
	if !apiequality.Semantic.DeepEqual(s.parts.spec(o), s.parts.spec(before)) {
		o.SetGeneration(before.GetGeneration() + 1)
	}
	s.parts.keepStatus(o, before)
}

func (s strategy[T]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(obj.(T))
}

func (s strategy[T]) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return s.validate(obj.(T))
}

func (strategy[T]) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (strategy[T]) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string { return nil }
func (strategy[T]) Canonicalize(runtime.Object)                                      {}

func (s statusStrategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.reset("metadata", "spec")
}

func (s statusStrategy[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, before := obj.(T), old.(T)
	// The managed fields tell of this update already.
	managed := o.GetManagedFields()
	s.parts.keepSpec(o, before)
	o.SetManagedFields(managed)
}

func (s statusStrategy[T]) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return s.validateStatus(obj.(T))
}

// validateConditions asks of a status that no type of condition is empty or there twice.
func validateConditions[C any](conditions []C, typeOf func(C) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, c := range conditions {
		name, path := typeOf(c), statusPath.Child("conditions").Index(i).Child("type")
		if seen[name] {
			errs = append(errs, field.Duplicate(path, name))
		}
		seen[name] = true
		if name == "" {
			errs = append(errs, field.Required(path, ""))
		}
	}
	return errs
}
