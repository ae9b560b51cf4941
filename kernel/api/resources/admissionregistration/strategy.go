package admissionregistration

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"pintle.dev/pintle/kernel/api/resources"
)

// object is a pointer to one of the types.
type object interface {
	metav1.Object
	runtime.Object
}

// strategy updates the main resource of a kind.
type strategy[T object] struct {
	gvk schema.GroupVersionKind
	// wanted is what a user asks for: each change of it is a new generation.
	wanted func(T) any
	// validate checks an object; old is nil in a create.
	validate func(o, old T) field.ErrorList
	// status takes what a request says of the status back to that of from, which is
	// nil in a create; nil: the kind has none.
	status func(o, from T)
}

var (
	_ resources.Strategy       = strategy[*admissionv1.ValidatingAdmissionPolicy]{}
	_ rest.ResetFieldsStrategy = strategy[*admissionv1.ValidatingAdmissionPolicy]{}
	_ resources.Strategy       = statusStrategy{}
	_ rest.ResetFieldsStrategy = statusStrategy{}
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
func (strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return false }
func (strategy[T]) Canonicalize(runtime.Object)                   {}

func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.status == nil {
		return nil
	}
	return resetting("status")
}

func resetting(paths ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, p := range paths {
		set.Insert(fieldpath.MakePathOrDie(p))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(admissionv1.SchemeGroupVersion.String()): set}
}

func (s strategy[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	o := obj.(T)
	if s.status != nil {
		var none T
		s.status(o, none)
	}
	o.SetGeneration(1)
}

func (s strategy[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, before := obj.(T), old.(T)
	if s.status != nil {
		s.status(o, before)
	}
	if !equality.Semantic.DeepEqual(s.wanted(before), s.wanted(o)) {
		o.SetGeneration(before.GetGeneration() + 1)
	}
}

func (s strategy[T]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	var none T
	return s.validate(obj.(T), none)
}

func (s strategy[T]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(obj.(T), old.(T))
}

// staticSuffix ends the names of objects that upstream reads from files.
const staticSuffix = ".static.k8s.io"

func (strategy[T]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if o := obj.(T); strings.HasSuffix(o.GetName(), staticSuffix) {
		return []string{fmt.Sprintf("metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", staticSuffix)}
	}
	return nil
}

func (s strategy[T]) WarningsOnUpdate(ctx context.Context, obj, _ runtime.Object) []string {
	return s.WarningsOnCreate(ctx, obj)
}

// statusStrategy updates the status of a validating policy alone.
type statusStrategy struct {
	strategy[*admissionv1.ValidatingAdmissionPolicy]
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetting("metadata", "spec")
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, before := obj.(*admissionv1.ValidatingAdmissionPolicy), old.(*admissionv1.ValidatingAdmissionPolicy)
	o.Spec = before.Spec
	metav1.ResetObjectMetaForStatus(&o.ObjectMeta, &before.ObjectMeta)
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return validateValidatingStatus(&obj.(*admissionv1.ValidatingAdmissionPolicy).Status)
}
