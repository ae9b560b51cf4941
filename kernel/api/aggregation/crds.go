package aggregation

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// customVersions are the group versions that CustomResourceDefinitions serve.
func customVersions(crds crdlisters.CustomResourceDefinitionLister) (sets.Set[schema.GroupVersion], error) {
	all, err := crds.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	out := sets.New[schema.GroupVersion]()
	for _, crd := range all {
		for _, v := range crd.Spec.Versions {
			if v.Served {
				out.Insert(schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name})
			}
		}
	}
	return out, nil
}

// customRegistration keeps the APIServices of custom resources: one for each group
// version that a CustomResourceDefinition serves.
type customRegistration struct {
	crds     crdlisters.CustomResourceDefinitionLister
	register autoregister.AutoAPIServiceRegistration

	mu   sync.Mutex // orders the changes
	made sets.Set[schema.GroupVersion]
}

// sync registers what is served, and no longer what is not.
func (r *customRegistration) sync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	served, err := customVersions(r.crds)
	if err != nil {
		return // a lister of an informer has none
	}
	for gv := range served.Difference(r.made) {
		r.register.AddAPIServiceToSync(localService(gv, customPriority))
	}
	for gv := range r.made.Difference(served) {
		r.register.RemoveAPIServiceToSync(gv.Version + "." + gv.Group)
	}
	r.made = served
}

// handler calls sync when what is served may have changed. An informer's first list is
// one sync, which Run makes: 1,000 definitions would each go over all.
func (r *customRegistration) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				r.sync()
			}
		},
		UpdateFunc: func(old, now any) {
			if before, after := old.(*apiextensionsv1.CustomResourceDefinition), now.(*apiextensionsv1.CustomResourceDefinition); before.Generation != after.Generation {
				r.sync()
			}
		},
		DeleteFunc: func(any) { r.sync() },
	}
}
