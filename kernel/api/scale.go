package api

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"pintle.dev/pintle/kernel/api/resources"
)

// scaleREST is the autoscaling/v1 Scale view of a kind.
type scaleREST struct {
	store  *genericregistry.Store
	access resources.ScaleAccess
	gvk    schema.GroupVersionKind
	gr     schema.GroupResource
}

var (
	_ rest.Patcher                  = (*scaleREST)(nil)
	_ rest.GroupVersionKindProvider = (*scaleREST)(nil)
)

func (r *scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }
func (r *scaleREST) Destroy()            {}

func (r *scaleREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

// ConvertToTable prints the Scale, not the object behind it, by columns of its
// own (kubectl get --subresource=scale).
func (r *scaleREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return scaleTable.ConvertToTable(ctx, obj, options)
}

func (r *scaleREST) view(obj runtime.Object) (*autoscalingv1.Scale, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	replicas, selector := r.access.Status(obj)
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
			ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: r.access.Replicas(obj)},
		Status: autoscalingv1.ScaleStatus{Replicas: replicas, Selector: selector},
	}, nil
}

func (r *scaleREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return r.view(obj)
}

func (r *scaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	createScale := func(ctx context.Context, obj runtime.Object) error {
		v, err := r.view(obj)
		if err != nil || create == nil {
			return err
		}
		return create(ctx, v)
	}
	updateScale := func(ctx context.Context, obj, old runtime.Object) error {
		if update == nil {
			return nil
		}
		v, err := r.view(obj)
		if err != nil {
			return err
		}
		was, err := r.view(old)
		if err != nil {
			return err
		}
		return update(ctx, v, was)
	}
	obj, _, err := r.store.Update(ctx, name, &scaleUpdate{r, name, info}, createScale, updateScale, false, options)
	if err != nil {
		return nil, false, err
	}
	v, err := r.view(obj)
	return v, false, err
}

// scaleUpdate turns an update of the Scale into one of its object.
type scaleUpdate struct {
	r    *scaleREST
	name string
	info rest.UpdatedObjectInfo
}

func (u *scaleUpdate) Preconditions() *metav1.Preconditions { return u.info.Preconditions() }

func (u *scaleUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	sub := schema.GroupResource{Group: u.r.gr.Group, Resource: u.r.gr.Resource + "/scale"}
	if m.GetResourceVersion() == "" {
		return nil, apierrors.NewNotFound(sub, u.name)
	}
	gv := u.r.gvk.GroupVersion()
	managed := managedfields.NewScaleHandler(m.GetManagedFields(), gv, managedfields.ResourcePathMappings{
		gv.String(): fieldpath.MakePathOrDie("spec", "replicas"),
	})
	was, err := u.r.view(obj)
	if err != nil {
		return nil, err
	}
	if was.ManagedFields, err = managed.ToSubresource(); err != nil {
		return nil, err
	}
	updated, err := u.info.UpdatedObject(ctx, was)
	if err != nil {
		return nil, err
	}
	if updated == nil {
		return nil, apierrors.NewBadRequest("nil update passed to Scale")
	}
	scale, ok := updated.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", updated))
	}
	if errs := validateScale(scale); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "autoscaling", Kind: "Scale"}, m.GetName(), errs)
	}
	if scale.UID != "" && scale.UID != m.GetUID() {
		return nil, apierrors.NewConflict(sub, m.GetName(),
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", scale.UID, m.GetUID()))
	}
	u.r.access.SetReplicas(obj, scale.Spec.Replicas)
	m.SetResourceVersion(scale.ResourceVersion)
	entries, err := managed.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(entries)
	return obj, nil
}

func validateScale(s *autoscalingv1.Scale) field.ErrorList {
	errs := validation.ValidateObjectMeta(&s.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if s.Spec.Replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0").WithOrigin("minimum"))
	}
	return errs
}
