package clusterdns

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/proxy"
)

// The service, by the names that kubeadm and everybody who looks for it use.
const (
	Namespace = metav1.NamespaceSystem
	Service   = "kube-dns"

	// manager of the slices.
	manager = "dns.kernel.pintle.dev"
)

// ports of the service; the plugin serves those of these names.
func ports() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53},
		{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53},
		{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9153},
	}
}

// ensureService creates the service where there is none, and reports whether its
// endpoints are the nodes'.
func (d *DNS) ensureService(ctx context.Context) (ours bool, err error) {
	services := d.cfg.Client.CoreV1().Services(Namespace)
	svc, err := services.Get(ctx, Service, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		svc, err = services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: Service, Namespace: Namespace,
				Labels: map[string]string{
					"k8s-app": Service, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
				},
				Annotations: map[string]string{"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
			},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: d.cfg.ClusterIP, Ports: ports()},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another node's kernel was first
			svc, err = services.Get(ctx, Service, metav1.GetOptions{})
		}
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("service %s/%s: %w", Namespace, Service, err)
	case len(svc.Spec.Selector) > 0:
		d.say("service selects pods, so that the cluster's DNS is theirs; this node's is not published", nil)
		return false, nil
	case svc.Spec.ClusterIP != d.cfg.ClusterIP:
		return true, fmt.Errorf("service %s/%s has the address %s, and pods are told %s: delete the service, or set node.clusterDNS", Namespace, Service, svc.Spec.ClusterIP, d.cfg.ClusterIP)
	}
	return true, nil
}

// sliceName is that of this node's slice.
func (d *DNS) sliceName() string { return Service + "-" + d.cfg.Options.NodeName }

// slice is what the plugin serves; a port that the service does not have, or an address
// that is not the node's, is not published.
func (d *DNS) slice(serves []*proxy.ServedPort, ready bool, node *corev1.Node) (*discoveryv1.EndpointSlice, error) {
	address := d.cfg.Options.NodeIPs[0]
	kind := discoveryv1.AddressTypeIPv4
	if a, err := netip.ParseAddr(address); err != nil {
		return nil, err
	} else if a.Unmap().Is6() {
		kind = discoveryv1.AddressTypeIPv6
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.sliceName(), Namespace: Namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: Service, discoveryv1.LabelManagedBy: manager, "k8s-app": Service},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
			}},
		},
		AddressType: kind,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, NodeName: &node.Name,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: ptr.To(false)},
			// Pods ask their own node's; where it does not answer, another's.
			Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: node.Name}}},
		}},
	}
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
		s.Endpoints[0].Zone = &zone
	}
	if err := d.check(serves); err != nil {
		return nil, err
	}
	for _, p := range serves {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To(p.GetName()), Protocol: ptr.To(corev1.Protocol(p.GetProtocol())), Port: ptr.To(p.GetPort())})
	}
	return s, nil
}

// check refuses what the plugin says if it is no port of the service, or not at this node.
func (d *DNS) check(serves []*proxy.ServedPort) error {
	address := d.cfg.Options.NodeIPs[0]
	for _, p := range serves {
		known := slices.ContainsFunc(ports(), func(own corev1.ServicePort) bool {
			return own.Name == p.GetName() && string(own.Protocol) == p.GetProtocol()
		})
		if !known || p.GetAddress() != address || p.GetPort() < 1 || p.GetPort() > 65535 {
			return fmt.Errorf("plugin %s says that it serves %s of %s at %s, port %d; want a port of service %s at %s", d.cfg.Plugin, p.GetName(), p.GetProtocol(), p.GetAddress(), p.GetPort(), Service, address)
		}
	}
	return nil
}

// publish makes the node's slice that.
func (d *DNS) publish(ctx context.Context, serves []*proxy.ServedPort, ready bool) error {
	node, err := d.cfg.Client.CoreV1().Nodes().Get(ctx, d.cfg.Options.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("node %s: %w", d.cfg.Options.NodeName, err)
	}
	want, err := d.slice(serves, ready, node)
	if err != nil {
		return err
	}
	all := d.cfg.Client.DiscoveryV1().EndpointSlices(Namespace)
	now, err := all.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = all.Create(ctx, want, metav1.CreateOptions{})
	case err != nil:
	case now.AddressType != want.AddressType: // what cannot be changed
		if err = all.Delete(ctx, want.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &now.UID}}); err == nil {
			_, err = all.Create(ctx, want, metav1.CreateOptions{})
		}
	case !equality.Semantic.DeepEqual(now.Endpoints, want.Endpoints) || !equality.Semantic.DeepEqual(now.Ports, want.Ports) ||
		!equality.Semantic.DeepEqual(now.Labels, want.Labels) || !equality.Semantic.DeepEqual(now.OwnerReferences, want.OwnerReferences):
		want.ResourceVersion = now.ResourceVersion
		_, err = all.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("endpoint slice %s/%s: %w", Namespace, want.Name, err)
	}
	return nil
}

// withdraw deletes the node's slice.
func (d *DNS) withdraw(ctx context.Context) error {
	err := d.cfg.Client.DiscoveryV1().EndpointSlices(Namespace).Delete(ctx, d.sliceName(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("endpoint slice %s/%s: %w", Namespace, d.sliceName(), err)
	}
	return nil
}
