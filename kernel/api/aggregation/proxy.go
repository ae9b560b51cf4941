package aggregation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	apiproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apiserver"
	apiregistrationscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
	"k8s.io/streaming/pkg/httpstream"
)

// via is the header by which proxies recognize their own requests (RFC 9110, 7.6.3).
const via = "Via"

// stopGrace is how long requests to other servers have when the kernel stops, which
// would else wait for one that hangs as long as a request may take.
const stopGrace = 2 * time.Second

// pseudonym is what the proxies of one cluster call themselves in it.
func pseudonym(cluster []byte) string {
	sum := sha256.Sum256(cluster)
	return "kube-aggregator-" + hex.EncodeToString(sum[:8])
}

// target is an APIService that another server serves, as it is now.
type target struct {
	gv              schema.GroupVersion
	name            string
	plugin          string // that serves it; empty: the service does
	service         apiregistrationv1.ServiceReference
	available       bool
	why             string // not available
	transport       http.RoundTripper
	buildsTransport error
}

// remoteHandler sends requests of one APIService to the server behind its Service.
type remoteHandler struct {
	resolver apiserver.ServiceResolver
	plugins  PluginServers
	self     string          // in Via
	stopping context.Context // of the kernel
	current  atomic.Pointer[target]
}

// update takes the object as it is now, with the certificate as it is now. plugin is
// the one that serves it, if one does.
func (h *remoteHandler) update(o *apiregistrationv1.APIService, plugin string, certificate func() (cert, key []byte)) {
	cert, key := certificate()
	t := &target{
		gv:      schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version},
		name:    o.Name,
		service: *o.Spec.Service,
	}
	if t.plugin = plugin; plugin != "" {
		t.available = true // what this kernel knows of it counts
		h.current.Store(t)
		return
	}
	if t.service.Port == nil { // stored before it had a default
		t.service.Port = new(int32)
		*t.service.Port = 443
	}
	switch c := helper.GetAPIServiceConditionByType(o, apiregistrationv1.Available); {
	case c == nil:
		t.why = "it was not checked yet"
	case c.Status == apiregistrationv1.ConditionTrue:
		t.available = true
	default:
		t.why = c.Reason
	}
	t.transport, t.buildsTransport = transport.New(remote.BuildTransportConfig(nil, cert, key, o))
	h.current.Store(t)
}

// ServeHTTP implements http.Handler: clients are told that a server is not available,
// rather than each waiting for it.
func (h *remoteHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if t := h.current.Load(); t.available {
		h.serve(w, req, t)
	} else {
		refuse(w, req, t.gv, apierrors.NewServiceUnavailable(fmt.Sprintf("service unavailable: APIService %s: %s", t.name, t.why)))
	}
}

// always is the handler for those who look whether the server is there.
func (h *remoteHandler) always() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { h.serve(w, req, h.current.Load()) })
}

func (h *remoteHandler) serve(w http.ResponseWriter, req *http.Request, t *target) {
	if t.buildsTransport != nil {
		refuse(w, req, t.gv, apierrors.NewInternalError(fmt.Errorf("APIService %s: %w", t.name, t.buildsTransport)))
		return
	}
	if passed(req, h.self) {
		refuse(w, req, t.gv, loop(t))
		return
	}
	who, ok := request.UserFrom(req.Context())
	if !ok {
		refuse(w, req, t.gv, apierrors.NewInternalError(fmt.Errorf("APIService %s: missing user", t.name)))
		return
	}
	location, by, err := h.find(t)
	if err != nil {
		refuse(w, req, t.gv, apierrors.NewServiceUnavailable(fmt.Sprintf("service unavailable: APIService %s: %v", t.name, err)))
		return
	}
	location.Path, location.RawQuery = req.URL.Path, req.URL.Query().Encode()
	out, cancel := apiproxy.NewRequestForProxy(location, req)
	defer cancel()
	ctx, end := context.WithCancel(out.Context())
	defer end()
	defer context.AfterFunc(h.stopping, func() { time.AfterFunc(stopGrace, end) })()
	out = out.WithContext(ctx)
	// Authentication took it away; whoever asks without it has none to give either.
	out.Header.Del("Authorization")
	out.Header.Add(via, fmt.Sprintf("%d.%d %s", req.ProtoMajor, req.ProtoMinor, h.self))
	upgrade := httpstream.IsUpgradeRequest(req)
	if upgrade { // which does not use the round tripper
		transport.SetAuthProxyHeaders(out, who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra())
	}
	through := transport.NewAuthProxyRoundTripper(who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra(), by)
	handler := proxy.NewUpgradeAwareHandler(location, through, true, upgrade, &responder{t})
	handler.RejectForwardingRedirects = true
	// The other server has turns of its own; a request that it serves has no seat here.
	flowcontrol.RequestDelegated(req.Context())
	handler.ServeHTTP(w, out)
}

// find says where requests of a target go now, and by what.
func (h *remoteHandler) find(t *target) (*url.URL, http.RoundTripper, error) {
	if t.plugin != "" {
		if h.plugins == nil {
			return nil, nil, fmt.Errorf("plugin %s is not in use at this API server", t.plugin)
		}
		by, err := h.plugins.Transport(t.plugin, t.gv)
		return &url.URL{Scheme: "http", Host: "localhost"}, by, err
	}
	found, err := h.resolver.ResolveEndpoint(t.service.Namespace, t.service.Name, *t.service.Port)
	if err != nil {
		return nil, nil, err
	}
	return &url.URL{Scheme: "https", Host: found.Host}, t.transport, nil
}

// passed tells that a request was sent out by self before.
func passed(req *http.Request, self string) bool {
	for _, line := range req.Header.Values(via) {
		for hop := range strings.SplitSeq(line, ",") {
			if f := strings.Fields(hop); len(f) > 1 && f[1] == self {
				return true
			}
		}
	}
	return false
}

func loop(t *target) error {
	where := fmt.Sprintf("service %s/%s", t.service.Namespace, t.service.Name)
	if t.plugin != "" {
		where = "plugin " + t.plugin
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusLoopDetected, Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("APIService %s: %s leads back to this cluster's API server", t.name, where),
	}}
}

func refuse(w http.ResponseWriter, req *http.Request, gv schema.GroupVersion, err error) {
	responsewriters.ErrorNegotiated(err, apiregistrationscheme.Codecs, gv, w, req)
}

// responder tells a client that its request could not be sent on.
type responder struct{ *target }

// Error implements proxy.ErrorResponder.
func (r *responder) Error(w http.ResponseWriter, req *http.Request, err error) {
	if op := (*net.OpError)(nil); r.plugin != "" && errors.As(err, &op) {
		// Where its socket lies is nobody's business.
		err = fmt.Errorf("plugin %s: %s: %w", r.plugin, op.Op, op.Err)
	}
	refuse(w, req, r.gv, apierrors.NewServiceUnavailable(fmt.Sprintf("APIService %s: %v", r.name, err)))
}
