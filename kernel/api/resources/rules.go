package resources

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// rules is a Strategy written as a table: what is nil is not done. T is the
// pointer type of the kind's object.
//
// It implements rest.GarbageCollectionDeleteStrategy too, so that whoever
// builds a store from it can hand it on as that.
type rules[T runtime.Object] struct {
	base
	// conditional: an update must name the resourceVersion it is made from.
	conditional bool
	// orphan: a delete that says nothing about dependents keeps them.
	orphan bool

	prepareCreate  func(obj T)
	prepareUpdate  func(obj, old T)
	validate       func(obj T) field.ErrorList
	validateUpdate func(obj, old T) field.ErrorList
	warnCreate     func(obj T) []string
	warnUpdate     func(obj, old T) []string
}

var (
	_ Strategy                             = (*rules[*metav1.PartialObjectMetadata])(nil)
	_ rest.ResetFieldsStrategy             = (*rules[*metav1.PartialObjectMetadata])(nil)
	_ rest.GarbageCollectionDeleteStrategy = (*rules[*metav1.PartialObjectMetadata])(nil)
)

func (r *rules[T]) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(T); !ok {
		return nil, false, fmt.Errorf("%T is not a %s", obj, r.gvk.Kind)
	}
	return r.base.ObjectKinds(obj)
}

func (r *rules[T]) AllowUnconditionalUpdate(context.Context) bool { return !r.conditional }

func (r *rules[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if r.prepareCreate != nil {
		r.prepareCreate(obj.(T))
	}
}

func (r *rules[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if r.prepareUpdate != nil {
		r.prepareUpdate(obj.(T), old.(T))
	}
}

func (r *rules[T]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	if r.validate == nil {
		return nil
	}
	return r.validate(obj.(T))
}

func (r *rules[T]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	if r.validateUpdate == nil {
		return nil
	}
	return r.validateUpdate(obj.(T), old.(T))
}

func (r *rules[T]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if r.warnCreate == nil {
		return nil
	}
	return r.warnCreate(obj.(T))
}

func (r *rules[T]) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	if r.warnUpdate == nil {
		return nil
	}
	return r.warnUpdate(obj.(T), old.(T))
}

func (r *rules[T]) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	if r.orphan {
		return rest.OrphanDependents
	}
	return rest.DeleteDependents
}

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
	templatePath = specPath.Child("template")
)

// warnPodNamePrefix says that a workload's name will be part of its pods'.
func warnPodNamePrefix(name string) []string {
	if msgs := validation.IsDNS1123Label(name); len(msgs) != 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", msgs)}
	}
	return nil
}
