package local

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"pintle.dev/pintle/sdk/cloud"
)

// Name is the provider's, and begins its provider IDs.
const Name = "local"

// provider implements cloudprovider.Interface.
type provider struct {
	ranges   []span
	client   kubernetes.Interface
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	cidrs    networkinglisters.ServiceCIDRLister
	slices   discoverylisters.EndpointSliceLister
	synced   []cache.InformerSynced
	pool     *pool
}

var (
	_ cloudprovider.Interface    = (*provider)(nil)
	_ cloudprovider.LoadBalancer = (*provider)(nil)
	_ cloudprovider.InstancesV2  = (*provider)(nil)
)

// New makes the provider.
func New(c *cloud.Context) (cloudprovider.Interface, error) {
	config := struct {
		Addresses []string `json:"addresses"`
	}{Addresses: slices.Clone(defaultRanges)}
	if err := c.Decode(&config); err != nil {
		return nil, err
	}
	ranges, err := parseRanges(config.Addresses)
	if err != nil {
		return nil, fmt.Errorf("configuration: addresses: %w", err)
	}
	services, nodes := c.Informers.Core().V1().Services(), c.Informers.Core().V1().Nodes()
	cidrs, slices := c.Informers.Networking().V1().ServiceCIDRs(), c.Informers.Discovery().V1().EndpointSlices()
	p := &provider{
		ranges: ranges, client: c.Client, services: services.Lister(), nodes: nodes.Lister(), cidrs: cidrs.Lister(), slices: slices.Lister(), pool: newPool(ranges),
		synced: []cache.InformerSynced{services.Informer().HasSynced, nodes.Informer().HasSynced, cidrs.Informer().HasSynced, slices.Informer().HasSynced},
	}
	return p, nil
}

// Initialize starts nothing.
func (p *provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer is the provider itself.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p, true }

// Instances are not there: those of the newer interface are.
func (p *provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 is the provider itself.
func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p, true }

// Zones are not there.
func (p *provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters are not there.
func (p *provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes are not there: the nodes' networks are not this provider's.
func (p *provider) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName is the scheme of provider IDs.
func (p *provider) ProviderName() string { return Name }

// HasClusterID says that none is needed.
func (p *provider) HasClusterID() bool { return true }

func keyOf(service *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// GetLoadBalancer tells which addresses a service has.
func (p *provider) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if err := p.recall(ctx); err != nil {
		return nil, false, err
	}
	ips := p.pool.has(keyOf(service), service.UID, familiesOf(service))
	if len(ips) == 0 {
		return nil, false, nil
	}
	return statusOf(ips), true, nil
}

// GetLoadBalancerName is the service's own.
func (p *provider) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// EnsureLoadBalancer gives a service an address of each of its families: the one that it has,
// asks for, or the first that is free. One that only prefers two families (PreferDualStack)
// gets those that there are ranges of.
func (p *provider) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if err := p.recall(ctx); err != nil {
		return nil, err
	}
	wants := familiesOf(service)
	var wanted netip.Addr
	if text := service.Spec.LoadBalancerIP; text != "" {
		var err error
		if wanted, err = netip.ParseAddr(text); err != nil {
			return nil, fmt.Errorf("spec.loadBalancerIP: %.50q is no IP address", text)
		}
		wanted = wanted.Unmap()
		if p.pool.in(wanted) && !slices.Contains(wants, familyOf(wanted)) {
			return nil, fmt.Errorf("spec.loadBalancerIP %s: the service has no addresses of %s; ask for another, or add it to spec.ipFamilies", wanted, familyOf(wanted))
		}
	}
	f, err := p.forbidden(keyOf(service))
	if err != nil {
		return nil, err
	}
	if !p.required(service) {
		wants = slices.DeleteFunc(slices.Clone(wants), func(family corev1.IPFamily) bool { return len(p.pool.of(family)) == 0 })
		if len(wants) == 0 { // the first one's error says it
			wants = familiesOf(service)
		}
	}
	p.pool.release(keyOf(service), service.UID, wants...)
	var ips []netip.Addr
	for i, family := range wants {
		ask := netip.Addr{}
		// One that is in no range is refused by the first family.
		if wanted.IsValid() && (familyOf(wanted) == family || i == 0 && !p.pool.in(wanted)) {
			ask = wanted
		}
		ip, err := p.pool.take(slot{keyOf(service), family}, service.UID, ask, addressesOf(service, family), f)
		if err != nil {
			return nil, err
		}
		ips = append(ips, ip)
	}
	return statusOf(ips), nil
}

// required says whether a service has to have an address of each of its families.
func (p *provider) required(s *corev1.Service) bool {
	return s.Spec.IPFamilyPolicy == nil || *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack
}

// UpdateLoadBalancer has nothing to do: every node's proxy serves every address.
func (p *provider) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

// EnsureLoadBalancerDeleted gives the addresses of a service up.
func (p *provider) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	if err := p.recall(ctx); err != nil {
		return err
	}
	p.pool.release(keyOf(service), service.UID)
	return nil
}

func statusOf(ips []netip.Addr) *corev1.LoadBalancerStatus {
	mode := corev1.LoadBalancerIPModeVIP
	status := &corev1.LoadBalancerStatus{}
	for _, ip := range ips {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode})
	}
	return status
}

// recall learns once, before the first answer, which services have which addresses. It
// asks the API server: where the process ran a provider before, the cache may lack what
// that one wrote last.
func (p *provider) recall(ctx context.Context) error {
	if p.pool.knows() {
		return nil
	}
	if !cache.WaitForCacheSync(ctx.Done(), p.synced...) {
		return fmt.Errorf("wait for the caches: %w", context.Cause(ctx))
	}
	services, err := p.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	f, err := p.forbidden(types.NamespacedName{})
	if err != nil {
		return err
	}
	p.pool.recall(services.Items, f)
	return nil
}

// InstanceExists implements cloudprovider.InstancesV2: a node is there as long as its
// object is.
func (p *provider) InstanceExists(context.Context, *corev1.Node) (bool, error) { return true, nil }

// InstanceShutdown says that nobody but the node knows.
func (p *provider) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }

// InstanceMetadata is what the node's agent says, so that nothing changes by it.
func (p *provider) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	id := node.Spec.ProviderID
	if id == "" {
		id = Name + "://" + node.Name
	}
	return &cloudprovider.InstanceMetadata{ProviderID: id, NodeAddresses: node.Status.Addresses}, nil
}
