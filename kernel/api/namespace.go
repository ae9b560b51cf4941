package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// namespaceREST deletes a namespace in two steps: the first delete marks it
// Terminating, and it goes when spec.finalizers is empty. A namespace cannot
// be deleted by collection.
type namespaceREST struct {
	store *kindREST
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.CreaterUpdater
}

func newNamespaceREST(r *kindREST) *namespaceREST {
	return &namespaceREST{store: r, Getter: r, Lister: r, Watcher: r, CreaterUpdater: r}
}

// namespaceGoes says whether an update ends a namespace. The stores of status
// and finalize are copies, so this is to be set before they are made.
func namespaceGoes(ctx context.Context, key string, obj, existing runtime.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) == 0 && genericregistry.ShouldDeleteDuringUpdate(ctx, key, obj, existing)
}

var (
	_ rest.Storage              = (*namespaceREST)(nil)
	_ rest.Scoper               = (*namespaceREST)(nil)
	_ rest.GracefulDeleter      = (*namespaceREST)(nil)
	_ rest.ShortNamesProvider   = (*namespaceREST)(nil)
	_ rest.SingularNameProvider = (*namespaceREST)(nil)
	_ rest.ResetFieldsStrategy  = (*namespaceREST)(nil)
)

func (r *namespaceREST) New() runtime.Object     { return r.store.New() }
func (r *namespaceREST) Destroy()                { r.store.Destroy() }
func (r *namespaceREST) NamespaceScoped() bool   { return false }
func (r *namespaceREST) GetSingularName() string { return r.store.GetSingularName() }
func (r *namespaceREST) ShortNames() []string    { return r.store.shortNames }
func (r *namespaceREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}
func (r *namespaceREST) StorageVersion() runtime.GroupVersioner {
	return r.store.StorageVersion()
}

func (r *namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	ns := obj.(*corev1.Namespace)
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	pre := options.Preconditions
	gr := corev1.Resource("namespaces")
	if pre.UID == nil {
		pre.UID = &ns.UID
	} else if *pre.UID != ns.UID {
		return nil, false, apierrors.NewConflict(gr, name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *pre.UID, ns.UID))
	}
	if pre.ResourceVersion != nil && *pre.ResourceVersion != ns.ResourceVersion {
		return nil, false, apierrors.NewConflict(gr, name,
			fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *pre.ResourceVersion, ns.ResourceVersion))
	}
	if !ns.DeletionTimestamp.IsZero() {
		if len(ns.Spec.Finalizers) != 0 {
			return ns, false, nil
		}
		return r.store.Delete(ctx, name, validate, options)
	}
	key, err := r.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	out := &corev1.Namespace{}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, out, false,
		&storage.Preconditions{UID: pre.UID, ResourceVersion: pre.ResourceVersion},
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			ns, ok := existing.(*corev1.Namespace)
			if !ok {
				return nil, fmt.Errorf("expected a Namespace, got %T", existing)
			}
			if validate != nil {
				if err := validate(ctx, ns); err != nil {
					return nil, err
				}
			}
			if ns.DeletionTimestamp.IsZero() {
				now := metav1.Now()
				ns.DeletionTimestamp = &now
			}
			ns.Status.Phase = corev1.NamespaceTerminating
			setDependentFinalizers(ns, options)
			return ns, nil
		}), dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		err = storeerr.InterpretGetError(err, gr, name)
		err = storeerr.InterpretUpdateError(err, gr, name)
		var status *apierrors.StatusError
		if !errors.As(err, &status) {
			err = apierrors.NewInternalError(err)
		}
		return nil, false, err
	}
	return out, false, nil
}

// setDependentFinalizers adds or removes the two finalizers that a propagation
// policy stands for.
func setDependentFinalizers(ns *corev1.Namespace, options *metav1.DeleteOptions) {
	want := func(finalizer string, byOrphan bool, policy metav1.DeletionPropagation) {
		has := slices.Contains(ns.Finalizers, finalizer)
		should := has
		//nolint:staticcheck // old clients still send orphanDependents
		if orphan := options.OrphanDependents; orphan != nil {
			should = *orphan == byOrphan
		} else if options.PropagationPolicy != nil {
			should = *options.PropagationPolicy == policy
		}
		switch {
		case should && !has:
			ns.Finalizers = append(ns.Finalizers, finalizer)
		case has && !should:
			ns.Finalizers = slices.DeleteFunc(slices.Clone(ns.Finalizers), func(f string) bool { return f == finalizer })
		}
	}
	want(metav1.FinalizerOrphanDependents, true, metav1.DeletePropagationOrphan)
	want(metav1.FinalizerDeleteDependents, false, metav1.DeletePropagationForeground)
}
