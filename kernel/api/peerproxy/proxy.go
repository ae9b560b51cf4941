package peerproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/reconcilers"
	upstream "k8s.io/apiserver/pkg/util/peerproxy"
	"k8s.io/apiserver/pkg/util/peerproxy/metrics"
	"k8s.io/client-go/informers"
	coordination "k8s.io/client-go/informers/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// identityLeases selects the Leases of API servers.
	identityLeases = "apiserver.kubernetes.io/identity=kube-apiserver"
	// serverName is in the certificate of each kernel, and in that of no node.
	serverName = "kubernetes.default.svc"
	// startWait is how long a start waits for the discovery of the others.
	startWait, startEvery = 3 * time.Second, 50 * time.Millisecond
)

// Config is what a Proxy works with.
type Config struct {
	Members *Members
	// Client and Loopback ask this kernel.
	Client   kubernetes.Interface
	Loopback *rest.Config
	Codecs   runtime.NegotiatedSerializer
	// CA signs the kernels' serving certificates, PEM. Certificate is the front proxy's.
	CA          []byte
	Certificate func() (*tls.Certificate, error)
	// CRDs, and APIServices of other servers, are the same at each kernel: what is there
	// of them is never sent to another.
	CRDs        cache.SharedIndexInformer
	APIServices cache.ListerWatcher
	Logger      *slog.Logger
}

// Proxy sends requests for what this kernel does not serve to those that do.
type Proxy struct {
	upstream.Interface
	members  *Members
	leases   informers.SharedInformerFactory
	lease    coordination.LeaseInformer
	services cache.SharedIndexInformer
	certs    *http.Transport
	log      *slog.Logger
}

// New makes a Proxy, which Run starts.
func New(c Config) (*Proxy, error) {
	metrics.Register()
	p := &Proxy{members: c.Members, log: c.Logger}
	p.leases = informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = identityLeases }))
	p.lease = p.leases.Coordination().V1().Leases()
	way := &transport.Config{TLS: transport.TLSConfig{
		CAData: c.CA, ServerName: serverName, GetCertHolder: &transport.GetCertHolder{GetCert: c.Certificate},
	}}
	way.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if t, ok := next.(*http.Transport); ok {
			p.certs = t
		}
		return guarded{next}
	})
	var err error
	if p.Interface, err = upstream.NewPeerProxyHandler(c.Members.self.ID, identityLeases, p.lease, endpoints{c.Members}, c.Codecs, c.Loopback, way); err != nil {
		return nil, fmt.Errorf("peer proxy: %w", err)
	}
	if err := p.RegisterCRDInformerHandlers(c.CRDs, ofCRD); err != nil {
		return nil, fmt.Errorf("peer proxy: %w", err)
	}
	p.services = cache.NewSharedIndexInformer(c.APIServices, &apiregistrationv1.APIService{}, 0, cache.Indexers{})
	if err := p.RegisterAPIServiceInformerHandlers(p.services, ofAPIService); err != nil {
		return nil, fmt.Errorf("peer proxy: %w", err)
	}
	return p, nil
}

func ofCRD(o any) []schema.GroupVersion {
	crd, ok := o.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	out := make([]schema.GroupVersion, 0, len(crd.Spec.Versions))
	for _, v := range crd.Spec.Versions {
		out = append(out, schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name})
	}
	return out
}

func ofAPIService(o any) []schema.GroupVersion {
	s, ok := o.(*apiregistrationv1.APIService)
	if !ok || s.Spec.Service == nil {
		return nil
	}
	return []schema.GroupVersion{{Group: s.Spec.Group, Version: s.Spec.Version}}
}

// Start reads what is served here and by the others that live, for which it waits a
// little. What it starts ends with ctx, and running waits for it.
func (p *Proxy) Start(ctx context.Context, running *sync.WaitGroup) error {
	running.Go(func() { p.services.RunWithContext(ctx) })
	p.leases.StartWithContext(ctx)
	running.Go(func() {
		<-ctx.Done()
		p.leases.Shutdown()
	})
	running.Go(func() { p.RunPeerDiscoveryActiveGVTracker(ctx) })
	running.Go(func() { p.RunPeerDiscoveryRefilter(ctx) })
	if err := p.RunLocalDiscoveryCacheSync(ctx.Done()); err != nil {
		return fmt.Errorf("peer proxy: %w", err)
	}
	if err := p.WaitForCacheSync(ctx.Done()); err != nil {
		return fmt.Errorf("peer proxy: %w", err)
	}
	running.Go(func() { p.RunPeerDiscoveryCacheSync(ctx, 1) })
	// Without it a 404 would say of objects of the others that they are gone.
	if err := wait.PollUntilContextTimeout(ctx, startEvery, startWait, true, func(context.Context) (bool, error) { return p.complete() }); err != nil && ctx.Err() == nil {
		p.log.Warn("another API server of the cluster does not tell what it serves; what only it serves is not found here until it does", "waited", startWait)
	}
	return nil
}

// complete tells that the discovery of all that live is there.
func (p *Proxy) complete() (bool, error) {
	leases, err := p.lease.Lister().List(labels.Everything())
	if err != nil {
		return false, err
	}
	known := p.GetPeerResources()
	for _, l := range leases {
		if _, lives := p.members.lookup(l.Name); lives && known[l.Name] == nil {
			return false, nil
		}
	}
	return true, nil
}

// Recertify has requests go over connections with the certificate of now.
func (p *Proxy) Recertify() {
	if p.certs != nil {
		utilnet.CloseIdleConnectionsFor(p.certs)
	}
}

// Before sends what only others serve to them, and all else to next.
func (p *Proxy) Before(next http.Handler) http.Handler {
	passing := p.WrapHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if httpstream.IsUpgradeRequest(req) {
			req = named(req)
		}
		passing.ServeHTTP(w, req)
	})
}

// named gives a watch over WebSocket the headers that requests get on their way,
// which those that are upgraded do not pass.
func named(req *http.Request) *http.Request {
	info, ok := request.RequestInfoFrom(req.Context())
	who, is := request.UserFrom(req.Context())
	if !ok || !is || info.Verb != "watch" || req.Header.Get(upstream.PeerProxiedHeader) != "" {
		return req
	}
	out := req.Clone(req.Context())
	out.Header.Del("Authorization")
	transport.SetAuthProxyHeaders(out, who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra())
	return out
}

// endpoints finds kernels for the library, which reconciles nothing here.
type endpoints struct{ members *Members }

var _ reconcilers.PeerEndpointLeaseReconciler = endpoints{}

// GetEndpoint implements reconcilers.PeerEndpointLeaseReconciler.
func (e endpoints) GetEndpoint(id string) (string, error) {
	return e.members.endpoint(context.Background(), id)
}

// UpdateLease implements reconcilers.PeerEndpointLeaseReconciler.
func (endpoints) UpdateLease(string, string, []corev1.EndpointPort) error {
	return errors.ErrUnsupported
}

// RemoveLease implements reconcilers.PeerEndpointLeaseReconciler.
func (endpoints) RemoveLease(string) error { return errors.ErrUnsupported }

// Destroy implements reconcilers.PeerEndpointLeaseReconciler.
func (endpoints) Destroy() {}

// StopReconciling implements reconcilers.PeerEndpointLeaseReconciler.
func (endpoints) StopReconciling() {}
