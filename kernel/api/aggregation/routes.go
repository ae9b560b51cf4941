package aggregation

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apiserver"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// routes says which group versions other servers serve. It is read with each request
// and replaced as a whole.
type routes struct {
	mu      sync.Mutex // orders the changes
	current atomic.Pointer[table]
	synced  atomic.Bool // all objects that were there at the start are in it
}

type table struct {
	handlers map[schema.GroupVersion]*remoteHandler
	groups   map[string]int // how many of handlers each has
}

var _ apiserver.APIHandlerManager = (*Aggregator)(nil)

func (r *routes) load() *table {
	if t := r.current.Load(); t != nil {
		return t
	}
	return &table{}
}

func (r *routes) set(gv schema.GroupVersion, h *remoteHandler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &table{handlers: maps.Clone(r.load().handlers), groups: map[string]int{}}
	if t.handlers == nil {
		t.handlers = map[schema.GroupVersion]*remoteHandler{}
	}
	if h == nil {
		delete(t.handlers, gv)
	} else {
		t.handlers[gv] = h
	}
	for gv := range t.handlers {
		t.groups[gv.Group]++
	}
	if len(t.handlers) == 0 {
		t = nil
	}
	r.current.Store(t)
}

// AddAPIService implements apiserver.APIHandlerManager: it takes an object that is new
// or has changed.
func (a *Aggregator) AddAPIService(o *apiregistrationv1.APIService) error {
	gv := schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version}
	plugin := ""
	if servedByPlugin(o) && !a.local(gv) {
		plugin, o = o.Labels[v1alpha1.PluginLabel], asRemote(o)
	}
	if o.Spec.Service == nil || gv.Group == "" || a.local(gv) {
		if o.Spec.Service != nil {
			a.log.Warn("an APIService names a Service for a group version that the kernel serves itself; the kernel goes on to serve it", "apiservice", o.Name)
		}
		a.RemoveAPIService(o.Name)
		return nil
	}
	if err := a.others.start(); err != nil {
		return err
	}
	h, known := a.routes.load().handlers[gv]
	if !known {
		h = &remoteHandler{resolver: a.cfg.Services, plugins: a.cfg.Plugins, self: a.self, stopping: a.others.ctx}
	}
	h.update(o, plugin, a.cfg.Certificate)
	if !known {
		a.routes.set(gv, h)
	}
	return a.others.take(o, h)
}

// RemoveAPIService implements apiserver.APIHandlerManager.
func (a *Aggregator) RemoveAPIService(name string) {
	gv := helper.APIServiceNameToGroupVersion(name)
	if _, known := a.routes.load().handlers[gv]; !known {
		return
	}
	a.routes.set(gv, nil)
	a.others.leave(name)
}

// Serve sends a request for what another server serves there, and all others to next.
func (a *Aggregator) Serve(w http.ResponseWriter, req *http.Request, next http.Handler) {
	t := a.routes.current.Load()
	if t != nil || !a.routes.synced.Load() {
		if h := a.route(t, next, req); h != nil {
			next = h
		}
	}
	next.ServeHTTP(w, req)
}

// route finds who serves a path, nil where it is the kernel.
func (a *Aggregator) route(t *table, next http.Handler, req *http.Request) http.Handler {
	if t == nil {
		t = &table{}
	}
	path := req.URL.Path
	if rest, ok := strings.CutPrefix(path, "/openapi/"); ok && len(t.handlers) > 0 {
		return a.others.openapi.route(t, next, strings.TrimSuffix(rest, "/"))
	}
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return nil
	}
	group, rest, _ := strings.Cut(rest, "/")
	version, _, _ := strings.Cut(rest, "/")
	if group == "" {
		return nil
	}
	if h := t.handlers[schema.GroupVersion{Group: group, Version: version}]; h != nil {
		return h
	}
	switch {
	case t.groups[group] > 0 && version == "":
		return a.groupHandler(group)
	case !a.routes.synced.Load() && !a.localGroup(group):
		// A 404 would tell controllers that the objects are gone.
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			refuse(w, req, schema.GroupVersion{Group: group, Version: version},
				apierrors.NewServiceUnavailable("the request has been made before all known HTTP paths have been installed, please try again"))
		})
	}
	return nil
}
