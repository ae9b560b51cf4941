package pluginaccess

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/auth/rbac/validation"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Config says what passes. All but Denied is required.
type Config struct {
	// Plugin is the name of who asks.
	Plugin string
	// Server is where requests go, Transport has the node's credentials.
	Server    *url.URL
	Transport http.RoundTripper
	// Rules are what the plugin may do now.
	Rules func() []v1alpha1.PluginPermission
	// Denied is told of what the rules forbade, as "list secrets"; nil: nobody is.
	Denied func(what string)
	Logger *slog.Logger
}

var infos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Handler lets requests pass that the rules allow, as the node.
func Handler(c Config) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: c.Transport, FlushInterval: -1, // watches
		ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(c.Server)
			r.Out.Host = ""
			for name := range r.Out.Header {
				if claims(name) {
					r.Out.Header.Del(name)
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "API server does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := infos.NewRequestInfo(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		what, allowed := c.allows(req, info)
		if !allowed {
			if c.Denied != nil {
				c.Denied(what)
			}
			refuse(w, info, fmt.Errorf("plugin %s may not %s: its rules on this machine do not say so", c.Plugin, what))
			return
		}
		proxy.ServeHTTP(w, req)
	})
}

// claims reports whether a header says who asks.
func claims(name string) bool {
	return name == "Authorization" || name == "Cookie" || strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "X-Forwarded-")
}

// discovery are the paths by which clients learn what there is, which everybody may read who is
// known (system:discovery).
var discovery = []string{"/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"}

// allows reports whether a request may pass, and what it is.
func (c *Config) allows(req *http.Request, info *request.RequestInfo) (what string, allowed bool) {
	what = info.Verb + " " + info.Path
	for name := range req.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			return "impersonate", false
		}
	}
	if !info.IsResourceRequest {
		known := slices.ContainsFunc(discovery, func(p string) bool { return info.Path == p || strings.HasPrefix(info.Path, p+"/") })
		// A path that another end reads otherwise is none of these.
		plain := req.URL.RawPath == "" && !strings.Contains(info.Path, "..") && !strings.Contains(info.Path, "//")
		return what, req.Method == http.MethodGet && known && plain && req.Header.Get("Upgrade") == ""
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	what = info.Verb + " " + resource
	if req.Header.Get("Upgrade") != "" || req.URL.RawPath != "" || strings.Contains(req.URL.Path, "..") || strings.Contains(req.URL.Path, "//") {
		return what, false
	}
	asked := rbacv1.PolicyRule{Verbs: []string{info.Verb}, APIGroups: []string{info.APIGroup}, Resources: []string{resource}}
	if info.Name != "" {
		asked.ResourceNames = []string{info.Name}
	}
	var rules []rbacv1.PolicyRule
	for _, r := range c.Rules() {
		if r.Namespace == "" || r.Namespace == info.Namespace {
			rules = append(rules, r.PolicyRule)
		}
	}
	covered, _ := validation.Covers(rules, []rbacv1.PolicyRule{asked})
	return what, covered
}

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, info *request.RequestInfo, reason error) {
	err := apierrors.NewForbidden(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name, reason)
	err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	responsewriters.WriteRawJSON(int(err.ErrStatus.Code), &err.ErrStatus, w)
}
