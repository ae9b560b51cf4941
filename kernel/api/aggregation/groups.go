package aggregation

import (
	"net/http"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
)

// Groups lists the groups at /apis, by their priorities. It is computed at each
// request, from what is in memory: nothing has to follow the objects in between.
func (a *Aggregator) Groups(w http.ResponseWriter, req *http.Request) {
	groups, err := a.groups()
	if err != nil {
		refuse(w, req, schema.GroupVersion{}, err)
		return
	}
	responsewriters.WriteObjectNegotiated(apiregistrationscheme.Codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{},
		w, req, http.StatusOK, &metav1.APIGroupList{Groups: groups}, false)
}

// groupHandler describes a group of which another server has a version.
func (a *Aggregator) groupHandler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		groups, err := a.groups()
		if err != nil {
			refuse(w, req, schema.GroupVersion{Group: name}, err)
			return
		}
		for i := range groups {
			if groups[i].Name == name {
				responsewriters.WriteObjectNegotiated(apiregistrationscheme.Codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{},
					w, req, http.StatusOK, &groups[i], false)
				return
			}
		}
		http.NotFound(w, req)
	})
}

func (a *Aggregator) groups() ([]metav1.APIGroup, error) {
	services := map[string]*apiregistrationv1.APIService{}
	add := func(o *apiregistrationv1.APIService) { services[o.Name] = o }
	crds, err := a.cfg.CRDs.Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				add(localService(schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}, customPriority))
			}
		}
	}
	for gv := range a.routes.load().handlers {
		if o, err := a.lister.Get(gv.Version + "." + gv.Group); err == nil {
			add(o)
		}
	}
	for gv := range a.builtin {
		if gv.Group != "" {
			add(localService(gv, BuiltinPriority(gv)))
		}
	}
	all := make([]*apiregistrationv1.APIService, 0, len(services))
	for _, o := range services {
		all = append(all, o)
	}
	out := []metav1.APIGroup{}
	for _, group := range helper.SortedByGroupAndVersion(all) {
		g := metav1.APIGroup{Name: group[0].Spec.Group}
		for _, o := range group {
			v := metav1.GroupVersionForDiscovery{GroupVersion: o.Spec.Group + "/" + o.Spec.Version, Version: o.Spec.Version}
			g.Versions = append(g.Versions, v)
		}
		g.PreferredVersion = g.Versions[0]
		out = append(out, g)
	}
	return out, nil
}
