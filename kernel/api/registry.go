package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"pintle.dev/pintle/kernel/api/fielderrors"
	"pintle.dev/pintle/kernel/api/resources"
	kernelstorage "pintle.dev/pintle/kernel/api/storage"
)

// returnsDeleted names the resources whose delete answers with the object
// instead of a Status, as upstream's do.
var returnsDeleted = map[schema.GroupResource]bool{
	{Resource: "pods"}: true, {Resource: "services"}: true, {Resource: "namespaces"}: true,
	{Resource: "persistentvolumes"}: true, {Resource: "persistentvolumeclaims"}: true,
	{Resource: "resourcequotas"}: true, {Resource: "serviceaccounts"}: true, {Resource: "podtemplates"}: true,
	{Group: "storage.k8s.io", Resource: "storageclasses"}: true, {Group: "storage.k8s.io", Resource: "csidrivers"}: true,
	{Group: "storage.k8s.io", Resource: "csinodes"}: true, {Group: "storage.k8s.io", Resource: "volumeattachments"}: true,
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}: true,
}

func groupResource(k resources.Kind) schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// newStore makes the registry store of a kind.
func newStore(k resources.Kind, opts generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	gr := groupResource(k)
	singular := k.Singular
	if singular == "" {
		return nil, fmt.Errorf("store of %s: kind has no singular name", gr)
	}
	attrs := attributes(k)
	indexed := slices.Sorted(maps.Keys(k.Index))
	store := &genericregistry.Store{
		NewFunc:     k.New,
		NewListFunc: k.NewList,
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attrs, IndexFields: indexed}
		},
		DefaultQualifiedResource:  gr,
		SingularQualifiedResource: schema.GroupResource{Group: gr.Group, Resource: singular},
		CreateStrategy:            k.Strategy,
		UpdateStrategy:            k.Strategy,
		DeleteStrategy:            k.Strategy,
		ReturnDeletedObject:       returnsDeleted[gr],
		TableConvertor:            newTable(k),
	}
	if reset, ok := k.Strategy.(rest.ResetFieldsStrategy); ok {
		store.ResetFieldsStrategy = reset
	}
	if k.TTL > 0 {
		ttl := k.TTL
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return ttl, nil }
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: opts, AttrFunc: attrs, TriggerFunc: k.Index}); err != nil {
		return nil, fmt.Errorf("store of %s: %w", gr, err)
	}
	if k.Decorate != nil {
		if err := k.Decorate(store); err != nil {
			return nil, fmt.Errorf("store of %s: %w", gr, err)
		}
	}
	return store, nil
}

// attributes gives what selectors look at: labels, name, namespace and the
// kind's own fields.
func attributes(k resources.Kind) storage.AttrFunc {
	namespaced := k.Strategy.NamespaceScoped()
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, err
		}
		var set fields.Set
		if k.Fields != nil {
			set = k.Fields(obj)
		}
		if set == nil {
			set = make(fields.Set, 2)
		}
		set["metadata.name"] = m.GetName()
		if namespaced {
			set["metadata.namespace"] = m.GetNamespace()
		}
		return m.GetLabels(), set, nil
	}
}

// with is a copy of store that updates by another strategy.
func with(store *genericregistry.Store, s resources.Strategy) *genericregistry.Store {
	out := *store
	out.UpdateStrategy = fielderrors.Update(s)
	out.ResetFieldsStrategy = nil
	if reset, ok := s.(rest.ResetFieldsStrategy); ok {
		out.ResetFieldsStrategy = reset
	}
	return &out
}

// kindREST is a kind's main resource.
type kindREST struct {
	*genericregistry.Store
	shortNames, categories []string
	gv                     schema.GroupVersion
	sent                   map[string]*genericregistry.Store
	// deleted makes of an object that a delete marks, and of no other, what is stored of it;
	// nil: it is read from what was written.
	deleted func(runtime.Object)
}

var (
	_ rest.StandardStorage    = (*kindREST)(nil)
	_ rest.ShortNamesProvider = (*kindREST)(nil)
	_ rest.CategoriesProvider = (*kindREST)(nil)
)

// Update implements rest.Updater.
func (r *kindREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, created, err := r.Store.Update(sharing(ctx, r.Store), name, info, create, update, forceAllowCreate, options)
	return obj, created, untyped(err)
}

// Delete implements rest.GracefulDeleter.
func (r *kindREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if r.deleted != nil {
		ctx = kernelstorage.WithGivenObject(ctx, r.deleted)
	}
	return r.Store.Delete(sharing(ctx, r.Store), name, validate, options)
}

// sharing lets the result of a write share with what is stored, unless a hook of the
// registry gets it: handlers encode it, and do nothing else with it.
func sharing(ctx context.Context, s *genericregistry.Store) context.Context {
	if s.AfterUpdate != nil || s.AfterDelete != nil || s.AfterCreate != nil || s.Decorator != nil {
		return ctx
	}
	return kernelstorage.WithSharedResult(ctx)
}

// untyped gives the refusal of an apply whose values do not fit the kind as the client's
// fault. The machinery does not say whose it is, and kube-apiserver answers 500.
func untyped(err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) || !strings.HasPrefix(err.Error(), "failed to create typed patch object (") {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

func (r *kindREST) ShortNames() []string { return r.shortNames }
func (r *kindREST) Categories() []string { return r.categories }

// newSubREST serves a subresource of store by a strategy of its own. What the
// strategy takes back from a request is told as fields or, where it takes all
// but some back, as a filter: the installer accepts one of the two.
func newSubREST(store *genericregistry.Store, s resources.Strategy) rest.Storage {
	sub := &subREST{with(store, s)}
	if filter, ok := s.(rest.ResetFieldsFilterStrategy); ok {
		return &filteredREST{sub, filter}
	}
	return &resetREST{sub}
}

// subREST is a subresource that reads and updates the whole object by a
// strategy of its own: status, finalize, ephemeralcontainers, resize.
type subREST struct{ store *genericregistry.Store }

// resetREST is a subREST whose strategy lists the fields it takes back.
type resetREST struct{ *subREST }

// filteredREST is a subREST whose strategy filters the fields it leaves.
type filteredREST struct {
	*subREST
	filter rest.ResetFieldsFilterStrategy
}

var (
	_ rest.Patcher                   = (*resetREST)(nil)
	_ rest.ResetFieldsStrategy       = (*resetREST)(nil)
	_ rest.Patcher                   = (*filteredREST)(nil)
	_ rest.ResetFieldsFilterStrategy = (*filteredREST)(nil)
)

func (r *resetREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r *filteredREST) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter {
	return r.filter.GetResetFieldsFilter()
}

func (r *subREST) New() runtime.Object { return r.store.New() }
func (r *subREST) Destroy()            {}

func (r *subREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update never creates: a subresource has no object of its own.
func (r *subREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, created, err := r.store.Update(sharing(ctx, r.store), name, info, create, update, false, options)
	return obj, created, untyped(err)
}

func (r *subREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
