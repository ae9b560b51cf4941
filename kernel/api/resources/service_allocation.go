package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
)

func withoutNamespace(ctx context.Context) context.Context { return request.WithNamespace(ctx, "") }

func invalidService(name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, name, errs)
}

// allocate gives svc what it needs and lacks, and gives up what old had and
// svc does not need; old is nil on create.
func (a *serviceAllocation) allocate(txn *ipalloc.Txn, svc, old *corev1.Service) error {
	if err := a.initFamilies(svc, old); err != nil {
		return err
	}
	if err := a.allocateIPs(txn, svc, old); err != nil {
		return err
	}
	if err := allocatePorts(txn, svc, old); err != nil {
		return err
	}
	return allocateHealthCheckPort(txn, svc, old)
}

// initFamilies fills ipFamilyPolicy and ipFamilies. The cluster's first family is
// the default; addresses are of its families alone.
func (a *serviceAllocation) initFamilies(svc, old *corev1.Service) error {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || samePreferDualStack(svc, old) {
		return nil
	}
	spec, cluster := &svc.Spec, a.alloc.Families()
	headlessOpen := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		case headlessOpen:
			spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
		default:
			spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
		}
	}
	if errs := validateClusterIPs(svc, old); len(errs) != 0 {
		return invalidService(svc.Name, errs)
	}
	policyPath := specPath.Child("ipFamilyPolicy")
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	var errs field.ErrorList
	bad := func(why string) { errs = append(errs, field.Invalid(policyPath, spec.IPFamilyPolicy, why)) }
	if old != nil {
		if single {
			if slices.Equal(old.Spec.ClusterIPs, spec.ClusterIPs) && len(spec.ClusterIPs) > 1 {
				spec.ClusterIPs = spec.ClusterIPs[:1]
			}
			if slices.Equal(old.Spec.IPFamilies, spec.IPFamilies) && len(spec.IPFamilies) > 1 {
				spec.IPFamilies = spec.IPFamilies[:1]
			}
		} else {
			if n := len(spec.ClusterIPs); n > 0 && n < len(old.Spec.ClusterIPs) {
				bad("must be 'SingleStack' to release the secondary cluster IP")
			}
			if n := len(spec.IPFamilies); n > 0 && n < len(old.Spec.IPFamilies) {
				bad("must be 'SingleStack' to release the secondary IP family")
			}
		}
	}
	if single && len(spec.ClusterIPs) == 2 {
		bad("must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
	}
	if single && len(spec.IPFamilies) == 2 {
		bad("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
	}
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		if family := familyOf(ip); !slices.Contains(cluster, family) {
			errs = append(errs, field.Invalid(specPath.Child("clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", family)))
		} else {
			spec.IPFamilies = append(spec.IPFamilies, family)
		}
	}
	if len(errs) > 0 {
		return invalidService(svc.Name, errs)
	}
	if headlessOpen {
		// Its endpoints are the user's own, of families the cluster need not have.
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = cluster[:1]
		}
		if len(spec.IPFamilies) < 2 && !single {
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
		}
		return nil
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(cluster) < 2 {
		bad("this cluster is not configured for dual-stack services")
	}
	for i, family := range spec.IPFamilies {
		if !slices.Contains(cluster, family) {
			errs = append(errs, field.Invalid(specPath.Child("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	if len(errs) > 0 {
		return invalidService(svc.Name, errs)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = cluster[:1:1]
	}
	if !single && len(spec.IPFamilies) == 1 && len(cluster) == 2 {
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// allocateIPs gives a service an address of each of its families that it lacks, and gives up those of families that it
// has no more.
func (a *serviceAllocation) allocateIPs(txn *ipalloc.Txn, svc, old *corev1.Service) error {
	var had []string
	switch {
	case old != nil && needsClusterIP(old):
		// An address stays until the service has no use for it; a change is
		// refused by validation.
		if !needsClusterIP(svc) {
			held, _ := ipalloc.Held(old)
			for _, ip := range held {
				txn.ReleaseIP(ip)
			}
			return nil
		}
		if isHeadless(old) {
			return nil
		}
		had = old.Spec.ClusterIPs
		for _, ip := range had[min(len(had), len(svc.Spec.ClusterIPs)):] {
			txn.ReleaseIP(ip)
		}
	case !needsClusterIP(svc), len(svc.Spec.ClusterIPs) > 0 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone:
		return nil
	}
	spec := &svc.Spec
	for i := len(had); i < len(spec.IPFamilies); i++ {
		want := ""
		if i < len(spec.ClusterIPs) {
			want = spec.ClusterIPs[i]
		}
		ip, err := txn.IP(spec.IPFamilies[i], want)
		switch {
		case err == nil:
		case want != "":
			return invalidService(svc.Name, field.ErrorList{field.Invalid(specPath.Child("clusterIPs"), spec.ClusterIPs,
				fmt.Sprintf("failed to allocate IP %v: %v", want, err))})
		case !errors.Is(err, ipalloc.ErrFull):
			return invalidService(svc.Name, field.ErrorList{field.Invalid(specPath.Child("clusterIPs"), spec.ClusterIPs,
				fmt.Sprintf("failed to allocate IP: %v", err))})
		default:
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", svc.Name, err))
		}
		// Not in place: the array may be the stored service's.
		spec.ClusterIPs = append(slices.Clone(spec.ClusterIPs[:min(i, len(spec.ClusterIPs))]), append([]string{ip}, spec.ClusterIPs[min(i+1, len(spec.ClusterIPs)):]...)...)
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

// allocatePorts shares one node port between service ports of one number, as
// DNS over TCP and UDP wants it.
func allocatePorts(txn *ipalloc.Txn, svc, old *corev1.Service) error {
	had := map[int32]bool{}
	if old != nil {
		for i := range old.Spec.Ports {
			had[old.Spec.Ports[i].NodePort] = true
		}
		delete(had, 0)
	}
	if needsNodePort(svc) {
		automatic := svc.Spec.Type == corev1.ServiceTypeNodePort || ptr.Deref(svc.Spec.AllocateLoadBalancerNodePorts, true)
		byPort := map[int32]int32{}
		if old == nil {
			for i := range svc.Spec.Ports {
				if p := &svc.Spec.Ports[i]; p.NodePort != 0 && byPort[p.Port] == 0 {
					byPort[p.Port] = p.NodePort
				}
			}
		}
		taken := map[int32]bool{}
		for i := range svc.Spec.Ports {
			p := &svc.Spec.Ports[i]
			if p.NodePort == 0 {
				if !automatic {
					continue
				}
				if old == nil {
					p.NodePort = byPort[p.Port]
				}
			}
			if p.NodePort != 0 && (had[p.NodePort] || taken[p.NodePort]) {
				continue
			}
			want := p.NodePort
			port, err := txn.Port(want)
			switch {
			case err == nil:
			case want != 0:
				return invalidService(svc.Name, field.ErrorList{field.Invalid(specPath.Child("ports").Index(i).Child("nodePort"), want, err.Error())})
			case errors.Is(err, ipalloc.ErrFull):
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			default:
				return err
			}
			p.NodePort, taken[port] = port, true
			if byPort[p.Port] == 0 {
				byPort[p.Port] = port
			}
		}
	}
	// What the new spec still names is kept: validation decides on it.
	for i := range svc.Spec.Ports {
		if needsNodePort(svc) {
			delete(had, svc.Spec.Ports[i].NodePort)
		}
	}
	for port := range had {
		txn.ReleasePort(port)
	}
	return nil
}

func allocateHealthCheckPort(txn *ipalloc.Txn, svc, old *corev1.Service) error {
	needed := old != nil && needsHealthCheck(old)
	switch needs := needsHealthCheck(svc); {
	case needs && !needed:
		port, err := txn.Port(svc.Spec.HealthCheckNodePort)
		if err != nil {
			if svc.Spec.HealthCheckNodePort != 0 {
				err = fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", svc.Spec.HealthCheckNodePort, err)
			} else {
				err = fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", 0, err)
			}
			return apierrors.NewInternalError(err)
		}
		svc.Spec.HealthCheckNodePort = port
	case needed && !needs:
		txn.ReleasePort(old.Spec.HealthCheckNodePort)
	}
	return nil
}

// normalizeClusterIPs keeps the singular and the plural field in step for
// clients that know one of them.
func normalizeClusterIPs(svc, old *corev1.Service) {
	spec := &svc.Spec
	if old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	if len(old.Spec.ClusterIPs) > 0 && len(spec.ClusterIPs) == 0 && old.Spec.ClusterIP == spec.ClusterIP {
		spec.ClusterIPs = old.Spec.ClusterIPs
	}
	if old.Spec.ClusterIP == spec.ClusterIP || !slices.Equal(old.Spec.ClusterIPs, spec.ClusterIPs) {
		return
	}
	if spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	} else {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// keepAllocated lets a client that sends its first manifest again keep what
// was allocated for it.
func keepAllocated(svc, old *corev1.Service) {
	if needsClusterIP(old) && needsClusterIP(svc) {
		if svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(svc.Spec.ClusterIPs) == 0 {
			svc.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
	}
	if needsNodePort(old) && needsNodePort(svc) {
		used := map[int32]bool{}
		for i := range svc.Spec.Ports {
			used[svc.Spec.Ports[i].NodePort] = true
		}
		byName := map[string]int32{}
		for i := range old.Spec.Ports {
			byName[old.Spec.Ports[i].Name] = old.Spec.Ports[i].NodePort
		}
		for i := range svc.Spec.Ports {
			if p := &svc.Spec.Ports[i]; p.NodePort == 0 && !used[byName[p.Name]] {
				p.NodePort = byName[p.Name]
			}
		}
	}
	if needsHealthCheck(old) && needsHealthCheck(svc) && svc.Spec.HealthCheckNodePort == 0 {
		svc.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// dropServiceTypeFields clears what the new type has no use for, unless the
// client changed it too, which validation refuses.
func dropServiceTypeFields(svc, old *corev1.Service) {
	n, o := &svc.Spec, &old.Spec
	if needsClusterIP(old) && !needsClusterIP(svc) {
		if o.ClusterIP == n.ClusterIP && slices.Equal(o.ClusterIPs, n.ClusterIPs) {
			n.ClusterIP, n.ClusterIPs = "", nil
		}
		if slices.Equal(o.IPFamilies, n.IPFamilies) {
			n.IPFamilies = nil
		}
		if ptr.Deref(o.IPFamilyPolicy, "") == ptr.Deref(n.IPFamilyPolicy, "") {
			n.IPFamilyPolicy = nil
		}
	}
	if needsNodePort(old) && !needsNodePort(svc) && !addsNodePorts(svc, old) {
		for i := range n.Ports {
			n.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheck(old) && !needsHealthCheck(svc) && o.HealthCheckNodePort == n.HealthCheckNodePort {
		n.HealthCheckNodePort = 0
	}
	if o.Type == corev1.ServiceTypeLoadBalancer && n.Type != corev1.ServiceTypeLoadBalancer {
		if a, b := o.AllocateLoadBalancerNodePorts, n.AllocateLoadBalancerNodePorts; a != nil && b != nil && *a == *b {
			n.AllocateLoadBalancerNodePorts = nil
		}
		if ptr.Equal(o.LoadBalancerClass, n.LoadBalancerClass) {
			n.LoadBalancerClass = nil
		}
	}
	if externallyAccessible(old) && !externallyAccessible(svc) && o.ExternalTrafficPolicy == n.ExternalTrafficPolicy {
		n.ExternalTrafficPolicy = ""
	}
	if n.Type != corev1.ServiceTypeLoadBalancer {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func addsNodePorts(svc, old *corev1.Service) bool {
	for i := range svc.Spec.Ports {
		port := svc.Spec.Ports[i].NodePort
		if port != 0 && !slices.ContainsFunc(old.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == port }) {
			return true
		}
	}
	return false
}

// samePreferDualStack: a PreferDualStack service that changes neither
// addresses nor families is neither upgraded nor downgraded.
func samePreferDualStack(svc, old *corev1.Service) bool {
	return old != nil && old.Spec.Type == svc.Spec.Type &&
		ptr.Deref(svc.Spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicyPreferDualStack &&
		ptr.Deref(old.Spec.IPFamilyPolicy, corev1.IPFamilyPolicyPreferDualStack) == corev1.IPFamilyPolicyPreferDualStack &&
		slices.Equal(old.Spec.ClusterIPs, svc.Spec.ClusterIPs) && slices.Equal(old.Spec.IPFamilies, svc.Spec.IPFamilies)
}

func familyOf(ip string) corev1.IPFamily {
	switch {
	case netutils.IsIPv4String(ip):
		return corev1.IPv4Protocol
	case netutils.IsIPv6String(ip):
		return corev1.IPv6Protocol
	}
	return "unknown"
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
