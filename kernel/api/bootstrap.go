package api

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/resources/ipalloc"
)

// systemNamespaces are there from the start and cannot be missed.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault}

// bootstrapTries is how often a server among several begins anew when another
// one was in its way.
const bootstrapTries = 20

// bootstrap creates the system namespaces, the system's priority classes and
// the kubernetes service, whose endpoints it keeps at the addresses of the
// servers.
func (s *Server) bootstrap(ctx context.Context) error {
	for try := 1; ; try++ {
		err := s.ensureSystem(ctx)
		if err == nil || !s.cfg.Backend.Shared() || try == bootstrapTries {
			return err
		}
		s.log.Debug("start of the system's objects is tried again", "error", err)
		select {
		case <-time.After(time.Duration(try) * 25 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Server) ensureSystem(ctx context.Context) error {
	namespaces := s.starter.CoreV1().Namespaces()
	for _, name := range systemNamespaces {
		if _, err := namespaces.Get(ctx, name, metav1.GetOptions{}); err == nil {
			continue
		} else if s.damaged(err) {
			continue
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := namespaces.Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	if err := s.ensurePriorityClasses(ctx); err != nil {
		return err
	}
	if err := s.ensureServiceCIDR(ctx); err != nil && !s.damaged(err) {
		return err
	}
	if err := s.ensureService(ctx); err != nil && !s.damaged(err) {
		return fmt.Errorf("service default/kubernetes: %w", err)
	}
	if err := s.ensureEndpoints(ctx); err != nil && !s.damaged(err) {
		return fmt.Errorf("endpoints default/kubernetes: %w", err)
	}
	return nil
}

// damaged tells that an error is about an object that is there and cannot be
// read, and logs it: the server does without, rather than not serve.
func (s *Server) damaged(err error) bool {
	if !apierrors.IsStoreReadError(err) && !(apierrors.IsInternalError(err) && strings.Contains(err.Error(), "corrupt object")) {
		return false
	}
	s.log.Error("an object of the system cannot be read; delete it with ignoreStoreReadErrorWithClusterBreakingPotential, "+
		"and the next start makes it anew, or restore it", "error", err)
	return true
}

// ensurePriorityClasses creates the classes of the system's own pods.
func (s *Server) ensurePriorityClasses(ctx context.Context) error {
	classes := s.starter.SchedulingV1().PriorityClasses()
	for _, class := range resources.SystemPriorityClasses() {
		_, err := classes.Get(ctx, class.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = classes.Create(ctx, class, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && !s.damaged(err) {
			return fmt.Errorf("priority class %s: %w", class.Name, err)
		}
	}
	return nil
}

const serviceName = "kubernetes"

func serverLabels() map[string]string {
	return map[string]string{"component": "apiserver", "provider": "kubernetes"}
}

func (s *Server) ensureService(ctx context.Context) error {
	ip, err := firstServiceIP(s.cfg.ServiceCIDR)
	if err != nil {
		return err
	}
	port := corev1.ServicePort{
		Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(int32(s.Port())),
	}
	services := s.starter.CoreV1().Services(metav1.NamespaceDefault)
	have, err := services.Get(ctx, serviceName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if err := s.freeServiceIP(ctx, ip.String()); err != nil {
			return err
		}
		single := corev1.IPFamilyPolicySingleStack
		_, err = services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault, Labels: serverLabels()},
			Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{port}, ClusterIP: ip.String(), IPFamilyPolicy: &single,
				SessionAffinity: corev1.ServiceAffinityNone, Type: corev1.ServiceTypeClusterIP,
			},
		}, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), ipalloc.ErrIPOutside.Error()) {
			// The range is another one than the cluster's, or on its way out: pods do
			// without the service, and the administrator can serve himself.
			s.log.Error("service default/kubernetes cannot be made; see whether a ServiceCIDR that is ready has the first address of api.serviceCIDR", "address", ip, "error", err)
			return nil
		}
		return err
	case err != nil:
		return err
	case equality.Semantic.DeepEqual(have.Spec.Ports, []corev1.ServicePort{port}):
		return nil
	}
	have = have.DeepCopy()
	have.Spec.Ports = []corev1.ServicePort{port}
	_, err = services.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// ensureEndpoints publishes where the service leads. A server that only
// listens on loopback cannot be reached through it, and the API refuses such
// endpoints.
func (s *Server) ensureEndpoints(ctx context.Context) error {
	if !s.reachable() {
		s.log.Info("service default/kubernetes has no endpoints: the api server is on loopback; set the advertised address to an address that pods reach",
			"address", s.cfg.AdvertiseAddress)
		return nil
	}
	if r := s.registry(); r != nil {
		return s.ensurePeers(ctx, r)
	}
	return s.publishEndpoints(ctx, []string{s.cfg.AdvertiseAddress})
}

// publishEndpoints makes the addresses, of one family and in order, the
// service's endpoints.
func (s *Server) publishEndpoints(ctx context.Context, addresses []string) error {
	ready := true
	var targets []corev1.EndpointAddress
	var endpoints []discoveryv1.Endpoint
	for _, a := range addresses {
		targets = append(targets, corev1.EndpointAddress{IP: a})
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	port, name, tcp := int32(s.Port()), "https", corev1.ProtocolTCP
	subsets := []corev1.EndpointSubset{{
		Addresses: targets,
		Ports:     []corev1.EndpointPort{{Name: name, Port: port, Protocol: tcp}},
	}}
	// A slice of this service belongs to the server, so the mirroring
	// controller must leave the Endpoints alone.
	labels := map[string]string{discoveryv1.LabelSkipMirror: "true"}
	client := s.starter.CoreV1().Endpoints(metav1.NamespaceDefault)
	have, err := client.Get(ctx, serviceName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault, Labels: labels}, Subsets: subsets,
		}, metav1.CreateOptions{})
	case err == nil && !equality.Semantic.DeepEqual(have.Subsets, subsets):
		have = have.DeepCopy()
		have.Subsets = subsets
		_, err = client.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	family := discoveryv1.AddressTypeIPv4
	if net.ParseIP(addresses[0]).To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: family,
		Endpoints:   endpoints,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}
	slices := s.starter.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	slice, err := slices.Get(ctx, serviceName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = slices.Create(ctx, want, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	case slice.AddressType != family:
		// The family of a slice cannot change.
		if err := slices.Delete(ctx, serviceName, metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err = slices.Create(ctx, want, metav1.CreateOptions{})
		return err
	case equality.Semantic.DeepEqual(slice.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(slice.Ports, want.Ports):
		return nil
	}
	slice = slice.DeepCopy()
	slice.Endpoints, slice.Ports = want.Endpoints, want.Ports
	_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	return err
}
