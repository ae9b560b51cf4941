package gatewaykeeper

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"
	listers "sigs.k8s.io/gateway-api/pkg/client/listers/apis/v1"
	listersv1beta1 "sigs.k8s.io/gateway-api/pkg/client/listers/apis/v1beta1"

	"pintle.dev/pintle/plugins/ingress/gateway"
)

// sources are the caches of objects.
type sources struct {
	classes    listers.GatewayClassLister
	gateways   listers.GatewayLister
	https      listers.HTTPRouteLister
	grpcs      listers.GRPCRouteLister
	grants     listersv1beta1.ReferenceGrantLister
	namespaces corelisters.NamespaceLister
}

// begin has changes call changed, and touched where a status or an annotation alone changed.
func (s *sources) begin(kinds externalversions.SharedInformerFactory, core informers.SharedInformerFactory, changed, touched func()) ([]cache.InformerSynced, error) {
	v1, v1beta1 := kinds.Gateway().V1(), kinds.Gateway().V1beta1()
	s.classes, s.gateways, s.https, s.grpcs = v1.GatewayClasses().Lister(), v1.Gateways().Lister(), v1.HTTPRoutes().Lister(), v1.GRPCRoutes().Lister()
	s.grants, s.namespaces = v1beta1.ReferenceGrants().Lister(), core.Core().V1().Namespaces().Lister()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			switch of(before, after) {
			case matters:
				changed()
			case touches:
				touched()
			}
		},
	}
	var synced []cache.InformerSynced
	for _, i := range []cache.SharedIndexInformer{
		v1.GatewayClasses().Informer(), v1.Gateways().Informer(), v1.HTTPRoutes().Informer(), v1.GRPCRoutes().Informer(),
		v1beta1.ReferenceGrants().Informer(), core.Core().V1().Namespaces().Informer(),
	} {
		r, err := i.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("event handler: %w", err)
		}
		synced = append(synced, r.HasSynced)
	}
	return synced, nil
}

// change is what of an object changed.
type change int

const (
	nothing change = iota
	// touches: the status may have to be written again.
	touches
	// matters: a table is made anew.
	matters
)

// of says what changed between two versions of an object. A status is of no table, so that
// other writers of statuses cause none.
func of(before, after any) change {
	b, ok := before.(metav1.Object)
	a, same := after.(metav1.Object)
	if !ok || !same || a.GetUID() != b.GetUID() || (a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) {
		return matters
	}
	if _, ok := before.(*corev1.Namespace); ok {
		if !equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) {
			return matters
		}
		return nothing
	}
	switch {
	case a.GetGeneration() != b.GetGeneration():
		return matters
	case a.GetResourceVersion() != b.GetResourceVersion():
		return touches
	}
	return nothing
}

// objects are those of the caches.
func (s *sources) objects() *gateway.Objects {
	out := &gateway.Objects{Namespaces: map[string]map[string]string{}}
	// Lists of caches do not fail.
	out.Classes, _ = s.classes.List(everything)
	out.Gateways, _ = s.gateways.List(everything)
	out.HTTPRoutes, _ = s.https.List(everything)
	out.GRPCRoutes, _ = s.grpcs.List(everything)
	grants, _ := s.grants.List(everything)
	for _, g := range grants {
		out.Grants = append(out.Grants, gateway.Grant{Namespace: g.Namespace, Spec: g.Spec})
	}
	namespaces, _ := s.namespaces.List(everything)
	for _, n := range namespaces {
		out.Namespaces[n.Name] = n.Labels
	}
	return out
}
