package cloud

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/service/helpers"
)

// guarded is a provider as upstream's controllers see it. Which parts a provider has it
// answers once, when it is initialised.
type guarded struct {
	*guard
	cloudprovider.Interface // for what is not asked of it: ProviderName is

	answers   *answers
	client    kubernetes.Interface // for statuses
	provider  string
	balancers cloudprovider.LoadBalancer
	instances cloudprovider.Instances
	second    cloudprovider.InstancesV2
	zones     cloudprovider.Zones
	routes    cloudprovider.Routes
}

var _ cloudprovider.Interface = (*guarded)(nil)

// look asks a provider once for what it has.
func look(g *guard, made cloudprovider.Interface, answers *answers, client kubernetes.Interface) (*guarded, error) {
	return recovering(g, "Interface", "the provider", func() (*guarded, error) {
		p := &guarded{guard: g, Interface: made, answers: answers, client: client, provider: made.ProviderName()}
		if part, has := made.LoadBalancer(); has {
			p.balancers = part
		}
		if part, has := made.Instances(); has {
			p.instances = part
		}
		if part, has := made.InstancesV2(); has {
			p.second = part
		}
		if part, has := made.Zones(); has {
			p.zones = part
		}
		if part, has := made.Routes(); has {
			p.routes = part
		}
		return p, nil
	})
}

// Initialize is done before.
func (p *guarded) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// ProviderName is the provider's own word.
func (p *guarded) ProviderName() string { return p.provider }

// LoadBalancer is the guarded one, as are the others.
func (p *guarded) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return balancers{p}, p.balancers != nil
}

// Instances are those of the older interface.
func (p *guarded) Instances() (cloudprovider.Instances, bool) {
	return instances{p.guard, p.instances}, p.instances != nil
}

// InstancesV2 are those of the newer interface, before which the older one is not asked.
// Upstream compares it with nil as well.
func (p *guarded) InstancesV2() (cloudprovider.InstancesV2, bool) {
	if p.second == nil {
		return nil, false
	}
	return secondInstances{p.guard, p.second}, true
}

// Zones are those of the older interface.
func (p *guarded) Zones() (cloudprovider.Zones, bool) {
	return zones{p.guard, p.zones}, p.zones != nil
}

// Clusters are asked for by no controller.
func (p *guarded) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes are the guarded ones.
func (p *guarded) Routes() (cloudprovider.Routes, bool) {
	return routes{p.guard, p.routes}, p.routes != nil
}

// balancers guards load balancers.
type balancers struct{ *guarded }

func about(service *corev1.Service) string {
	return "service " + service.Namespace + "/" + service.Name
}

// found is what GetLoadBalancer answers.
type found struct {
	status *corev1.LoadBalancerStatus
	exists bool
}

// GetLoadBalancer implements cloudprovider.LoadBalancer, as do the others.
func (b balancers) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	f, err := call(ctx, b.guard, "GetLoadBalancer", about(service), func(ctx context.Context) (found, error) {
		status, exists, err := b.balancers.GetLoadBalancer(ctx, cluster, service)
		return found{status, exists}, err
	})
	if err == nil && !f.exists {
		b.answers.forget(service) // upstream asks to delete only what exists
	}
	return f.status, f.exists, err
}

// GetLoadBalancerName is a name, or none.
func (b balancers) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	name, _ := call(ctx, b.guard, "GetLoadBalancerName", about(service), func(ctx context.Context) (string, error) {
		return b.balancers.GetLoadBalancerName(ctx, cluster, service), nil
	})
	return name
}

// EnsureLoadBalancer also checks the answer before it gets into a service.
func (b balancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	status, err := call(ctx, b.guard, "EnsureLoadBalancer", about(service), func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
		return b.balancers.EnsureLoadBalancer(ctx, cluster, service, nodes)
	})
	var withdrawn *Withdrawn
	if errors.As(err, &withdrawn) {
		return nil, b.withdraw(service, err)
	}
	if err != nil || status == nil {
		return nil, err
	}
	if err := b.answers.take(service, status); err != nil {
		return nil, err
	}
	return status, nil
}

// withdraw empties the status of a service, and returns why.
func (b balancers) withdraw(service *corev1.Service, why error) error {
	b.answers.forget(service)
	now := service.DeepCopy()
	now.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	if _, err := helpers.PatchService(b.client.CoreV1(), service, now); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%w (the status of %s still has it: %w)", why, about(service), err)
	}
	return why
}

// UpdateLoadBalancer tells of other nodes.
func (b balancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	_, err := call(ctx, b.guard, "UpdateLoadBalancer", about(service), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.balancers.UpdateLoadBalancer(ctx, cluster, service, nodes)
	})
	return err
}

// EnsureLoadBalancerDeleted takes a load balancer away.
func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	_, err := call(ctx, b.guard, "EnsureLoadBalancerDeleted", about(service), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.balancers.EnsureLoadBalancerDeleted(ctx, cluster, service)
	})
	if err == nil {
		b.answers.forget(service)
	}
	return err
}

// routes guards routes, about which one call is under way at a time for each node.
type routes struct {
	*guard
	of cloudprovider.Routes
}

// ListRoutes implements cloudprovider.Routes, as do the others.
func (r routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	return call(ctx, r.guard, "ListRoutes", "cluster "+cluster, func(ctx context.Context) ([]*cloudprovider.Route, error) {
		return r.of.ListRoutes(ctx, cluster)
	})
}

func destination(route *cloudprovider.Route) string {
	return "route to " + route.DestinationCIDR + " of node " + string(route.TargetNode)
}

// CreateRoute makes a route.
func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	_, err := call(ctx, r.guard, "CreateRoute", destination(route), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.of.CreateRoute(ctx, cluster, hint, route)
	})
	return err
}

// DeleteRoute takes a route away.
func (r routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	_, err := call(ctx, r.guard, "DeleteRoute", destination(route), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.of.DeleteRoute(ctx, cluster, route)
	})
	return err
}

// zones guards zones.
type zones struct {
	*guard
	of cloudprovider.Zones
}

// GetZone implements cloudprovider.Zones, as do the others.
func (z zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return call(ctx, z.guard, "GetZone", "this machine", z.of.GetZone)
}

// GetZoneByProviderID finds a zone by the provider's id.
func (z zones) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return call(ctx, z.guard, "GetZoneByProviderID", "instance "+id, func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.of.GetZoneByProviderID(ctx, id)
	})
}

// GetZoneByNodeName finds a zone by the node.
func (z zones) GetZoneByNodeName(ctx context.Context, node types.NodeName) (cloudprovider.Zone, error) {
	return call(ctx, z.guard, "GetZoneByNodeName", "node "+string(node), func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.of.GetZoneByNodeName(ctx, node)
	})
}
