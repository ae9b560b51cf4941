package api

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api/storage"
)

// Source lists and watches the resource in all namespaces straight from its
// registry store: no HTTP, no encoding, no authorization. Its objects are
// shared with the store's other readers: they must not be changed. selector
// may be nil; the field names it may use are those of the kind. Only served
// built-in resources have a source, custom ones do not. Objects that cannot be
// read are left out, and logged.
func (s *Server) Source(gvr schema.GroupVersionResource, selector fields.Selector) (cache.ListerWatcher, error) {
	store, ok := s.stores[gvr.GroupResource()]
	if !ok {
		return nil, fmt.Errorf("source of %s: no such built-in resource", gvr)
	}
	if selector == nil {
		selector = fields.Everything()
	}
	return &source{store: store, fields: selector, cached: s.cfg.Backend.Shared()}, nil
}

type source struct {
	store  *genericregistry.Store
	fields fields.Selector
	// cached: events may carry what encoders share (runtime.CacheableObject).
	cached bool
}

func (s *source) options(in metav1.ListOptions) (*internalversion.ListOptions, error) {
	out := &internalversion.ListOptions{
		LabelSelector:        labels.Everything(),
		FieldSelector:        s.fields,
		Watch:                in.Watch,
		AllowWatchBookmarks:  in.AllowWatchBookmarks,
		ResourceVersion:      in.ResourceVersion,
		ResourceVersionMatch: in.ResourceVersionMatch,
		TimeoutSeconds:       in.TimeoutSeconds,
		Limit:                in.Limit,
		Continue:             in.Continue,
		SendInitialEvents:    in.SendInitialEvents,
	}
	if in.LabelSelector != "" {
		sel, err := labels.Parse(in.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("source: label selector: %w", err)
		}
		out.LabelSelector = sel
	}
	if in.FieldSelector != "" {
		sel, err := fields.ParseSelector(in.FieldSelector)
		if err != nil {
			return nil, fmt.Errorf("source: field selector: %w", err)
		}
		out.FieldSelector = fields.AndSelectors(s.fields, sel)
	}
	return out, nil
}

func (s *source) ListWithContext(ctx context.Context, in metav1.ListOptions) (runtime.Object, error) {
	opts, err := s.options(in)
	if err != nil {
		return nil, err
	}
	return s.store.List(storage.WithoutCorruptObjects(ctx), opts)
}

func (s *source) WatchWithContext(ctx context.Context, in metav1.ListOptions) (watch.Interface, error) {
	in.Watch = true
	opts, err := s.options(in)
	if err != nil {
		return nil, err
	}
	// A reader that is not told that it gets no initial events waits for their end.
	if errs := validation.ValidateListOptions(opts, utilfeature.DefaultFeatureGate.Enabled(features.WatchList)); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	w, err := s.store.Watch(storage.WithoutCorruptObjects(storage.WithPlainObjects(ctx)), opts)
	if err != nil || !s.cached {
		return w, err
	}
	return watch.Filter(w, unwrapped), nil
}

func unwrapped(e watch.Event) (watch.Event, bool) {
	if shared, ok := e.Object.(runtime.CacheableObject); ok {
		e.Object = shared.GetObject()
	}
	return e, true
}

// List and Watch are what older callers of cache.ListerWatcher use.
func (s *source) List(in metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), in)
}

func (s *source) Watch(in metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), in)
}

var (
	_ cache.ListerWatcher            = (*source)(nil)
	_ cache.ListerWatcherWithContext = (*source)(nil)
)
