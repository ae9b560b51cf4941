package api

import (
	"net/http"
	"sort"
	"sync"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// groupPriority orders the groups of aggregated discovery as upstream does;
// what is not named comes after, by name.
var groupPriority = map[string]int{
	"apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
	"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200,
	"policy": 17100, "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
	"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
	"node.k8s.io": 16300, "discovery.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
}

// groups serves the unaggregated list at /apis. The groups of custom resources
// are read from the lister at each request, so that nothing has to follow them
// in between.
type groups struct {
	discovery.GroupManager
	crds crdlisters.CustomResourceDefinitionLister

	mu     sync.Mutex
	custom map[string]bool
	fixed  map[string]bool
}

func (g *groups) AddGroup(group metav1.APIGroup) {
	g.mu.Lock()
	g.fixed[group.Name] = true
	g.mu.Unlock()
	g.GroupManager.AddGroup(group)
}

func (g *groups) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	g.sync()
	g.GroupManager.ServeHTTP(w, req)
}

func (g *groups) sync() {
	g.mu.Lock()
	defer g.mu.Unlock()
	crds, err := g.crds.List(labels.Everything())
	if err != nil {
		return
	}
	versions := map[string][]string{}
	for _, crd := range crds {
		if g.fixed[crd.Spec.Group] || !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				versions[crd.Spec.Group] = append(versions[crd.Spec.Group], v.Name)
			}
		}
	}
	for name := range g.custom {
		if versions[name] == nil {
			g.GroupManager.RemoveGroup(name)
			delete(g.custom, name)
		}
	}
	names := make([]string, 0, len(versions))
	for name := range versions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		g.GroupManager.AddGroup(apiGroup(name, versions[name]))
		g.custom[name] = true
	}
}

// apiGroup lists a group's versions, each once, the preferred one first.
func apiGroup(name string, versions []string) metav1.APIGroup {
	sort.Slice(versions, func(i, j int) bool {
		return version.CompareKubeAwareVersionStrings(versions[i], versions[j]) > 0
	})
	out := metav1.APIGroup{Name: name}
	for i, v := range versions {
		if i > 0 && versions[i-1] == v {
			continue
		}
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}
