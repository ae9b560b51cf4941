package api

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/resources"
)

// serviceREST tells the allocators whether an update was written: the store says so
// before it is, and what a service gives up may be another's at once.
type serviceREST struct{ *kindREST }

// Update implements rest.Updater.
func (r *serviceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (obj runtime.Object, created bool, err error) {
	ctx, done := resources.WithOutcome(ctx)
	written := false
	defer func() { done(written) }()
	obj, created, err = r.kindREST.Update(ctx, name, info, create, update, forceCreate, options)
	written = err == nil
	return obj, created, err
}
