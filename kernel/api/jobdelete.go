package api

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// jobREST tells who deletes Jobs and says nothing of their pods that these stay.
type jobREST struct{ *kindREST }

var (
	_ rest.StandardStorage    = (*jobREST)(nil)
	_ rest.CategoriesProvider = (*jobREST)(nil)
)

// podsStay is upstream's warning.
const podsStay = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

func warnOfPods(ctx context.Context, options *metav1.DeleteOptions) {
	//nolint:staticcheck // OrphanDependents is deprecated, and clients of old send it.
	if options != nil && options.PropagationPolicy == nil && options.OrphanDependents == nil {
		warning.AddWarning(ctx, "", podsStay)
	}
}

func (r *jobREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	warnOfPods(ctx, options)
	return r.kindREST.Delete(ctx, name, validate, options)
}

func (r *jobREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	warnOfPods(ctx, options)
	return r.kindREST.DeleteCollection(ctx, validate, options, which)
}
