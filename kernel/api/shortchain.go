package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"
)

// chained puts the filters before a handler: the machinery's own chain, or for
// creates of pods, patches of their statuses and deletes of one that does the same
// to a request with a quarter of the work. The machinery copies the request twenty
// times, to add a value to its context each time, and serves on a second goroutine,
// whose stack has to grow again, so that it can answer a client while that one
// hangs. These requests hang nowhere: each has a limit of its own, as the
// machinery's handler has for those that are left to it, and its body is small.
// Requests that make spans, which only the machinery's does, go by that.
func (s *Server) chained(handler http.Handler, c *genericapiserver.Config) http.Handler {
	// One limit for both ways: after authorization, as the last filter of both.
	handler = s.limits.before(s.inTurn(handler, c), c.LongRunningFunc)
	auth := c.Authentication.Authenticator
	unlimited := *c
	unlimited.MaxRequestsInFlight, unlimited.MaxMutatingRequestsInFlight, unlimited.FlowControl = 0, 0, nil
	unlimited.Authentication.Authenticator = deepenedAuthenticator{auth}
	long := genericapiserver.DefaultBuildHandlerChain(handler, &unlimited)
	if s.cfg.Tracing != nil || len(c.CorsAllowedOriginList) > 0 || len(c.HSTSDirectives) > 0 ||
		c.GoawayChance > 0 || c.ShutdownSendRetryAfter {
		return deepened(long) // filters that are not in the short one
	}
	handler = filters.WithAuthorization(handler, c.Authorization.Authorizer, c.Serializer)
	if c.FeatureGate.Enabled(genericfeatures.ConstrainedImpersonation) {
		handler = impersonation.WithConstrainedImpersonation(handler, c.Authorization.Authorizer, c.Serializer)
	} else {
		handler = impersonation.WithImpersonation(handler, c.Authorization.Authorizer, c.Serializer)
	}
	handler = filters.WithAudit(handler, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc)
	failed := filters.WithFailedAuthenticationAudit(filters.Unauthorized(c.Serializer), c.AuditBackend, c.AuditPolicyRuleEvaluator)
	handler = filters.WithAuthentication(handler, auth, failed, c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	handler = filters.WithWarningRecorder(handler)
	short := &shortChain{next: handler, long: long, config: c}
	short.served = genericfilters.WithPanicRecovery(http.HandlerFunc(short.serve), c.RequestInfoResolver)
	return deepened(short)
}

// deepenedAuthenticator is the first of the machinery's chain that runs on its
// second goroutine.
type deepenedAuthenticator struct{ authenticator.Request }

func (d deepenedAuthenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	deepen(len(req.URL.Path))
	return d.Request.AuthenticateRequest(req)
}

// shortChain is the filters of creates of pods, patches of their statuses, and
// deletes of one pod. What is anything but that takes the long way.
type shortChain struct {
	next, long, served http.Handler
	config             *genericapiserver.Config
}

func (s *shortChain) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !writesPod(req) || klog.V(3).Enabled() || s.config.NonLongRunningRequestWaitGroup.Add(1) != nil {
		s.long.ServeHTTP(w, req)
		return
	}
	defer s.config.NonLongRunningRequestWaitGroup.Done()
	s.served.ServeHTTP(w, req)
}

// largestShort is the largest body, in bytes, that is waited for on the short way.
const largestShort = 256 << 10

// writesPod says whether a request, which nobody has looked at, is one of those that
// go the short way, and asks for nothing beside it.
func writesPod(req *http.Request) bool {
	if !stoppable(req) || req.ContentLength < 0 || req.ContentLength > largestShort || strings.Contains(req.URL.RawQuery, "timeout") {
		return false
	}
	path, ok := strings.CutPrefix(req.URL.Path, "/api/v1/namespaces/")
	if !ok {
		return false
	}
	namespace, path, _ := strings.Cut(path, "/")
	resource, name, named := strings.Cut(path, "/")
	if namespace == "" || resource != "pods" {
		return false
	}
	switch req.Method {
	case http.MethodPost:
		ok = !named && req.ContentLength > 0
	case http.MethodPatch:
		name, ok = strings.CutSuffix(name, "/status")
		ok = ok && req.ContentLength > 0
	case http.MethodDelete:
	default:
		return false
	}
	if !ok || named && (name == "" || strings.Contains(name, "/")) || req.Method != http.MethodPost && !named {
		return false
	}
	for header := range req.Header {
		if header == "Upgrade" || header == "Origin" {
			return false
		}
	}
	return true
}

// stoppable says whether the body of a request can be given up while it is read. That
// of HTTP/1, by which the controllers of plugins write, can be by the deadline of its
// connection, which nothing between a plugin's socket and the limit of bodies hides.
func stoppable(req *http.Request) bool {
	return req.ProtoMajor == 2 || req.ProtoMajor == 1 && req.Context().Value(socketKey{}) != nil
}

// shortVerbs are those of requests that go the short way, by their subresource.
var shortVerbs = map[string]string{"create": "", "patch": "status", "delete": ""}

func (s *shortChain) serve(w http.ResponseWriter, req *http.Request) {
	info, err := s.config.RequestInfoResolver.NewRequestInfo(req)
	part, short := "", false
	if err == nil {
		part, short = shortVerbs[info.Verb]
	}
	if !short || info.Resource != "pods" || info.Subresource != part {
		s.long.ServeHTTP(w, req)
		return
	}
	ctx := audit.WithAuditContext(req.Context())
	id := req.Header.Get(auditinternal.HeaderAuditID)
	if id == "" {
		id = uuid.NewString()
	}
	audit.WithAuditID(ctx, types.UID(id))
	if s.config.AuditBackend == nil {
		// Nobody would read what is noted, of each decision.
		_ = audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelNone}, nil)
	}
	h := w.Header()
	if h.Get(auditinternal.HeaderAuditID) == "" {
		h.Set(auditinternal.HeaderAuditID, id)
	}
	if _, ok := h["Cache-Control"]; !ok {
		h.Set("Cache-Control", "no-cache, private")
	}
	ctx = request.WithReceivedTimestamp(ctx, time.Now())
	ctx = request.WithRequestInfo(ctx, info)
	ctx = request.WithLatencyTrackers(ctx)
	// Who sends no body is given up by the limit of bodies.
	s.next.ServeHTTP(w, req.WithContext(ctx))
}
