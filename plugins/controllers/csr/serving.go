package csr

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// servingRetry is the longest until a request is looked at again that is not approved: the
// Node gets its addresses a moment after the request, or another Node goes.
const servingRetry = time.Minute

type servingApprover struct {
	client   kubernetes.Interface
	requests certificateslisters.CertificateSigningRequestLister
	nodes    corelisters.NodeLister
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	ranges   networkinglisters.ServiceCIDRLister
	watches  []queue.Watch
	loop     *queue.Loop[string]
	log      *slog.Logger
}

// NewServingApprover builds csrapproving-kubelet-serving.
func NewServingApprover(c *controller.Context) (controller.Runner, error) {
	requests, core := c.Informers.Certificates().V1().CertificateSigningRequests(), c.Informers.Core().V1()
	endpoints, ranges := c.Informers.Discovery().V1().EndpointSlices(), c.Informers.Networking().V1().ServiceCIDRs()
	a := &servingApprover{
		client: c.Client, log: c.Logger, requests: requests.Lister(), nodes: core.Nodes().Lister(), services: core.Services().Lister(), slices: endpoints.Lister(), ranges: ranges.Lister(),
		watches: []queue.Watch{
			{Informer: core.Nodes().Informer()}, {Informer: core.Services().Informer()}, {Informer: endpoints.Informer()}, {Informer: ranges.Informer()},
			{Informer: requests.Informer()},
		},
	}
	a.watches[len(a.watches)-1].Handler = queue.On(func(_, current *certificatesv1.CertificateSigningRequest) {
		if current != nil {
			a.loop.Add(current.Name)
		}
	})
	a.loop = queue.New(c.Logger, a.sync, queue.Options[string]{
		Name: "kubelet_serving_certificate", Workers: 1,
		Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, servingRetry),
	})
	return a, nil
}

// Run works until ctx ends.
func (a *servingApprover) Run(ctx context.Context) error { return a.loop.Follow(ctx, a.watches...) }

const servingMessage = "Auto approving kubelet serving certificate: the node asks for addresses that its Node has, and no other."

func (a *servingApprover) sync(ctx context.Context, name string) error {
	r, err := a.requests.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(r.Status.Certificate) > 0 || decided(r) || r.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return nil
	}
	x, err := parse(r.Spec.Request)
	if err != nil {
		return fmt.Errorf("unable to parse csr %q: %w", name, err)
	}
	if err := asksForItself(r, x); err != nil {
		a.log.Warn("a request for a serving certificate is not approved", "request", name, "requestor", r.Spec.Username, "reason", err)
		return nil // it never will be
	}
	if err := a.owns(strings.TrimPrefix(r.Spec.Username, nodePrefix), x); err != nil {
		level := slog.LevelDebug // its Node gets its addresses a moment later
		if errors.As(err, new(clash)) {
			level = slog.LevelWarn // a person decides, or one of the two Nodes goes
		}
		a.log.Log(ctx, level, "a request for a serving certificate is not approved yet", "request", name, "requestor", r.Spec.Username, "reason", err)
		return queue.Quiet(fmt.Errorf("request %s: %w", name, err))
	}
	return approve(ctx, a.client, r, servingMessage)
}

// asksForItself: a node asks for its own serving certificate, of names and addresses alone.
func asksForItself(r *certificatesv1.CertificateSigningRequest, x *x509.CertificateRequest) error {
	switch {
	case !ofNode(x):
		return errors.New("its subject is not a node of the group system:nodes")
	case r.Spec.Username != x.Subject.CommonName || !slices.Contains(r.Spec.Groups, nodesGroup):
		return fmt.Errorf("it is about %s, and the requestor is another", x.Subject.CommonName)
	case len(x.EmailAddresses)+len(x.URIs) > 0:
		return errors.New("it names mail addresses or URIs")
	case len(x.DNSNames)+len(x.IPAddresses) == 0:
		return errors.New("it names neither an address nor a name")
	case !uses(r.Spec.Usages, certificatesv1.UsageServerAuth):
		return fmt.Errorf("its usages are %v", r.Spec.Usages)
	}
	for _, ip := range x.IPAddresses {
		// Loopback, link-local, multicast: what each machine has, or several.
		if !ip.IsGlobalUnicast() {
			return fmt.Errorf("address %s is of no single machine", ip)
		}
	}
	for _, name := range x.DNSNames {
		if reserved(name) {
			return fmt.Errorf("name %q is of services or of each machine", name)
		}
		// Some clients compare an address with names too.
		if _, err := netip.ParseAddr(name); err == nil || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("%q is not a DNS name", name)
		}
	}
	return nil
}

// reserved are names that belong to no machine: with a certificate for them a node could
// be a service, or the API server.
func reserved(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	first, _, _ := strings.Cut(name, ".")
	return name == "localhost" || first == "kubernetes" || strings.HasSuffix(name, ".svc") || strings.Contains(name, ".svc.") || strings.Contains(name, "*")
}

// clash is that of a node with another Node.
type clash struct{ error }

// owns is an error unless the Node has all that the request names, and no other Node has any
// of it. A node writes its own addresses, and could write another's: of two Nodes with one
// address neither gets a certificate.
func (a *servingApprover) owns(name string, x *x509.CertificateRequest) error {
	node, err := a.nodes.Get(name)
	if err != nil {
		return err
	}
	for _, want := range x.DNSNames {
		if !strings.EqualFold(name, want) && !hasHostname(node, want) {
			return fmt.Errorf("node %s has another name than %q, and another hostname", name, want)
		}
	}
	for _, ip := range x.IPAddresses {
		if !hasAddress(node, ip.String()) {
			return fmt.Errorf("node %s has no address %s", name, ip)
		}
		if err := a.serves(ip); err != nil {
			return err
		}
	}
	others, err := a.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.Name == name {
			continue
		}
		for _, want := range x.DNSNames {
			if strings.EqualFold(other.Name, want) || hasAddress(other, want) {
				return clash{fmt.Errorf("name %q is of node %s too", want, other.Name)}
			}
		}
		for _, ip := range x.IPAddresses {
			if hasAddress(other, ip.String()) {
				return clash{fmt.Errorf("address %s is of node %s too", ip, other.Name)}
			}
			if within(ip, append(slices.Clone(other.Spec.PodCIDRs), other.Spec.PodCIDR)) {
				return clash{fmt.Errorf("address %s is in the range of pod IPs of node %s", ip, other.Name)}
			}
		}
	}
	return nil
}

// serves is an error where an address is the API server's or a Service's, or could become a
// Service's. It is one too while the API server's addresses are not known.
func (a *servingApprover) serves(ip net.IP) error {
	apis, err := a.slices.EndpointSlices(metav1.NamespaceDefault).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: "kubernetes"}))
	if err != nil {
		return err
	}
	known := 0
	for _, slice := range apis {
		for _, e := range slice.Endpoints {
			known += len(e.Addresses)
			if slices.ContainsFunc(e.Addresses, func(text string) bool { return same(text, ip.String()) }) {
				return fmt.Errorf("address %s is the API server's; a node beside it needs an address of its own", ip)
			}
		}
	}
	if known == 0 {
		return errors.New("the API server's addresses are not known: service default/kubernetes has no endpoints")
	}
	ranges, err := a.ranges.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if within(ip, r.Spec.CIDRs) {
			return fmt.Errorf("address %s is in ServiceCIDR %s", ip, r.Name)
		}
	}
	all, err := a.services.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, s := range all {
		addresses := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs, []string{s.Spec.ClusterIP})
		for _, in := range s.Status.LoadBalancer.Ingress {
			addresses = append(addresses, in.IP)
		}
		if slices.ContainsFunc(addresses, func(text string) bool { return same(text, ip.String()) }) {
			return fmt.Errorf("address %s is that of service %s/%s", ip, s.Namespace, s.Name)
		}
	}
	return nil
}

// hasAddress reports whether a Node has an address or a name.
func hasAddress(node *corev1.Node, want string) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return same(a.Address, want) })
}

// hasHostname reports whether a name is a Node's hostname.
func hasHostname(node *corev1.Node, want string) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeHostName && strings.EqualFold(a.Address, want)
	})
}

// same compares addresses as such, and names without regard to case.
func same(a, b string) bool {
	x, err1 := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	if err1 == nil && err2 == nil {
		return x.Unmap() == y.Unmap()
	}
	return err1 != nil && err2 != nil && strings.EqualFold(a, b)
}

// within reports whether one of the ranges has an address.
func within(ip net.IP, cidrs []string) bool {
	addr, ok := netip.AddrFromSlice(ip)
	return ok && slices.ContainsFunc(cidrs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(addr.Unmap())
	})
}
