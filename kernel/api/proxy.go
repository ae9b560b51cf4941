package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/streaming/pkg/httpstream"
)

// locate finds where an id ("name", "name:port", "scheme:name:port") is
// reached and by which transport.
type locate func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error)

// proxyREST is the proxy subresource of pods, services and nodes.
type proxyREST struct {
	locate  locate
	options func() runtime.Object
	// may is asked before a request goes on, if there is something to ask.
	may func(req *http.Request, path string) error
}

var _ rest.Connecter = (*proxyREST)(nil)

func (r *proxyREST) New() runtime.Object { return r.options() }
func (r *proxyREST) Destroy()            {}
func (r *proxyREST) ConnectMethods() []string {
	return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
}
func (r *proxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return r.options(), true, "path"
}

func (r *proxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	var where string
	switch o := options.(type) {
	case *corev1.PodProxyOptions:
		where = o.Path
	case *corev1.ServiceProxyOptions:
		where = o.Path
	case *corev1.NodeProxyOptions:
		where = o.Path
	default:
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.may != nil {
			if err := r.may(req, where); err != nil {
				responder.Error(err)
				return
			}
		}
		location, transport, err := r.locate(ctx, id)
		if err != nil {
			responder.Error(err)
			return
		}
		location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, where)
		proxy.NewUpgradeAwareHandler(location, transport, true, false, proxy.NewErrorResponder(responder)).ServeHTTP(w, req)
	}), nil
}

// streamPaths are the agent's paths that run something in a container or reach
// its ports.
var streamPaths = []string{"exec", "attach", "portForward", "run", "cri"}

// mayStream keeps the right to read a node's pages from being one to run commands:
// the agent takes the API server's word for everything, and its streams can be
// asked for by GET. They need create, and so does whatever else is no plain page.
func mayStream(authz authorizer.Authorizer) func(*http.Request, string) error {
	return func(req *http.Request, where string) error {
		first, _, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+where), "/"), "/")
		if !slices.Contains(streamPaths, first) && !httpstream.IsUpgradeRequest(req) {
			return nil
		}
		return mayAlso(req.Context(), authz, "create")
	}
}

// podLocation is a pod's address and port, by default the first one declared.
func podLocation(pods podGetter, k *kubelets) locate {
	return func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
		scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
		if !ok {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id))
		}
		pod, err := pods(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		for i := 0; port == "" && i < len(pod.Spec.Containers); i++ {
			if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
				port = strconv.Itoa(int(ports[0].ContainerPort))
			}
		}
		ip := pod.Status.PodIP
		if len(pod.Status.PodIPs) > 0 {
			ip = pod.Status.PodIPs[0].IP
		}
		if parsed := net.ParseIP(ip); parsed == nil || !parsed.IsGlobalUnicast() {
			return nil, nil, apierrors.NewBadRequest("address not allowed")
		}
		host := ip
		if port != "" {
			host = net.JoinHostPort(ip, port)
		} else if net.ParseIP(ip).To4() == nil {
			host = "[" + ip + "]"
		}
		return &url.URL{Scheme: scheme, Host: host}, k.plain, nil
	}
}

// nodeLocation is a node's agent, or another port of its host.
func nodeLocation(k *kubelets) locate {
	return func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
		scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
		if !ok {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
		}
		host, own, err := k.address(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if err := proxyable(ctx, host); err != nil {
			return nil, nil, err
		}
		if port == "" || port == own {
			return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, own)}, k.verified, nil
		}
		return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, k.plain, nil
	}
}

// serviceLocation is a random ready endpoint of a service that is a pod.
func serviceLocation(s *Server, k *kubelets) locate {
	return func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
		scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
		if !ok {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
		}
		if number, err := strconv.ParseInt(port, 10, 64); err == nil {
			svc, err := inNamespace[*corev1.Service](ctx, s, corev1.Resource("services"), name)
			if err != nil {
				return nil, nil, err
			}
			found := false
			for _, p := range svc.Spec.Ports {
				if int64(p.Port) == number {
					port, found = p.Name, true
					break
				}
			}
			if !found {
				return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
			}
		}
		eps, err := inNamespace[*corev1.Endpoints](ctx, s, corev1.Resource("endpoints"), name)
		if err != nil {
			return nil, nil, err
		}
		if len(eps.Subsets) == 0 {
			return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
		}
		for _, i := range rand.Perm(len(eps.Subsets)) {
			subset := &eps.Subsets[i]
			for _, p := range subset.Ports {
				if p.Name != port {
					continue
				}
				for _, a := range rand.Perm(len(subset.Addresses)) {
					addr := &subset.Addresses[a]
					if s.isPod(ctx, addr) {
						return &url.URL{Scheme: scheme, Host: net.JoinHostPort(addr.IP, strconv.Itoa(int(p.Port)))}, k.plain, nil
					}
				}
			}
		}
		return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id))
	}
}

// isPod says whether an endpoint's address is that of the pod it names: a
// user who may write endpoints must not reach other hosts through the server.
func (s *Server) isPod(ctx context.Context, addr *corev1.EndpointAddress) bool {
	if addr.TargetRef == nil || addr.TargetRef.Kind != "Pod" {
		return false
	}
	if ip := net.ParseIP(addr.IP); ip == nil || !ip.IsGlobalUnicast() {
		return false
	}
	pod, err := get[*corev1.Pod](ctx, s, corev1.Resource("pods"), addr.TargetRef.Namespace, addr.TargetRef.Name)
	if err != nil {
		return false
	}
	for _, ip := range pod.Status.PodIPs {
		if ip.IP == addr.IP {
			return true
		}
	}
	return pod.Status.PodIP == addr.IP
}
