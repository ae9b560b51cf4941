package aggregation

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// PluginServers are the API servers of plugins that run in this kernel.
type PluginServers interface {
	// Transport reaches what serves a group version of a plugin, or says why nothing
	// does now.
	Transport(plugin string, gv schema.GroupVersion) (http.RoundTripper, error)
}

// servedByPlugin tells an APIService that a plugin serves. What its label says alone
// gives it nothing: PluginServers knows what a plugin serves.
func servedByPlugin(o *apiregistrationv1.APIService) bool {
	return o.Spec.Service == nil && o.Labels[v1alpha1.PluginLabel] != ""
}

// pluginNamespace is none of the cluster: no name of one has a dot.
const pluginNamespace = "plugin.kernel.pintle.dev"

// asRemote is the APIService of a plugin as kube-aggregator's controllers take it, who
// tell servers from each other by their Services.
func asRemote(o *apiregistrationv1.APIService) *apiregistrationv1.APIService {
	o = o.DeepCopy()
	o.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: pluginNamespace, Name: o.Labels[v1alpha1.PluginLabel]}
	return o
}

// withoutPlugins are the APIServices for the controller that calls those available which
// have no Service: what plugins serve is not among them.
type withoutPlugins struct{ followed }

// Lister implements informers.APIServiceInformer.
func (w withoutPlugins) Lister() listers.APIServiceLister { return hiding{w.followed.Lister()} }

// hiding is a lister without what plugins serve.
type hiding struct{ listers.APIServiceLister }

// Get implements listers.APIServiceLister.
func (h hiding) Get(name string) (*apiregistrationv1.APIService, error) {
	o, err := h.APIServiceLister.Get(name)
	if err == nil && servedByPlugin(o) {
		return nil, apierrors.NewNotFound(apiregistrationv1.Resource("apiservices"), name)
	}
	return o, err
}

// List implements listers.APIServiceLister.
func (h hiding) List(selector labels.Selector) ([]*apiregistrationv1.APIService, error) {
	all, err := h.APIServiceLister.List(selector)
	var out []*apiregistrationv1.APIService
	for _, o := range all {
		if !servedByPlugin(o) {
			out = append(out, o)
		}
	}
	return out, err
}
