package ipalloc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"pintle.dev/pintle/kernel/dualstack"
)

// Errors of allocations by name, in upstream's words.
var (
	ErrIPAllocated   = errors.New("provided IP is already allocated")
	ErrPortAllocated = errors.New("provided port is already allocated")
	// ErrNotReady is for allocators without records.
	ErrNotReady = errors.New("allocator not ready")
	// ErrIPOutside is for addresses of no range that is ready.
	ErrIPOutside = errors.New("the provided network does not match the current range")
)

// Config of an Allocator.
type Config struct {
	// CIDR is the range that the cluster was made with, like 10.96.0.0/16, or one of
	// each family with a comma between them: it says of which families cluster IPs
	// are. The first address of each is given by name only. Required.
	CIDR string
	// NodePorts is "first-last"; default 30000-32767.
	NodePorts string
	// Addresses are the records of cluster IPs. Required before a Txn takes one.
	Addresses Addresses
	// Claims are of node ports, shared with other allocators of the same range;
	// nil: there is no other.
	Claims Claims
}

// Allocator hands out addresses and ports. It is safe for concurrent use.
type Allocator struct {
	first     map[corev1.IPFamily]netip.Addr // of each range
	families  []corev1.IPFamily
	portRange utilnet.PortRange
	addresses Addresses
	claims    Claims
	list      func(context.Context) ([]corev1.Service, error) // set by Load, before claims are used
	pool      *pool

	loading sync.Mutex // held while services are read
	mu      sync.Mutex
	loaded  bool
	ports   *band
	unheld  map[string]unheld // claims without a service, by name
}

// New reads the ranges. The Allocator is empty until Load.
func New(cfg Config) (*Allocator, error) {
	prefixes, err := dualstack.Ranges(cfg.CIDR)
	if err != nil {
		return nil, fmt.Errorf("service CIDR %q: %w; use a range like 10.96.0.0/16", cfg.CIDR, err)
	}
	a := &Allocator{first: map[corev1.IPFamily]netip.Addr{}, addresses: cfg.Addresses, claims: cfg.Claims, pool: newPool()}
	given := dualstack.Split(cfg.CIDR)
	for i, prefix := range prefixes {
		if given[i] != prefix.String() {
			return nil, fmt.Errorf("service CIDR %q: has host bits set; use %s", given[i], prefix)
		}
		if newRange(prefix).band.size < 2 {
			return nil, fmt.Errorf("service CIDR %q: too small; use /29 or larger", given[i])
		}
		family := familyOf(prefix.Addr())
		a.families = append(a.families, family)
		a.first[family] = prefix.Addr().Next()
	}
	if cfg.NodePorts == "" {
		cfg.NodePorts = "30000-32767"
	}
	ports, err := utilnet.ParsePortRange(cfg.NodePorts)
	if err != nil {
		return nil, fmt.Errorf("node port range %q: %w; use first-last", cfg.NodePorts, err)
	}
	if ports.Size <= 0 || ports.Base <= 0 {
		return nil, fmt.Errorf("node port range %q: is empty; use first-last, like 30000-32767", cfg.NodePorts)
	}
	a.portRange = *ports
	a.ports = newBand(ports.Size, lowerBand(ports.Size, 32, 128))
	return a, nil
}

// Families are those of the cluster's ranges, the default first.
func (a *Allocator) Families() []corev1.IPFamily { return slices.Clone(a.families) }

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// Load takes in what the stored services hold, once; later calls do nothing.
// Services whose addresses have no record, as those of a cluster that is older
// than the records, get one. list is asked again at the next call if it fails.
// Ports outside the range and ports that two services hold are left alone: the
// first release frees them.
func (a *Allocator) Load(ctx context.Context, list func(context.Context) ([]corev1.Service, error)) error {
	a.loading.Lock()
	defer a.loading.Unlock()
	if a.isLoaded() {
		return nil
	}
	services, err := list(ctx)
	if err != nil {
		return fmt.Errorf("read the services that hold addresses: %w", err)
	}
	if a.addresses != nil {
		// Records are listed last: what is freed meanwhile is found when nothing
		// else is free.
		if _, err := Adopt(ctx, a.addresses, services); err != nil {
			return err
		}
		if err := a.refreshAddresses(ctx); err != nil {
			return err
		}
		for i := range services {
			for _, ip := range heldIPs(&services[i]) {
				a.pool.take(ip)
			}
		}
	}
	if a.shared() {
		a.list = list
		if err := a.refresh(ctx); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range services {
		_, ports := Held(&services[i])
		for _, port := range ports {
			if n, ok := a.portIndex(port); ok {
				a.ports.take(n)
			}
		}
	}
	a.loaded = true
	return nil
}

// Adopt records the addresses of services that have no record and counts them.
// Those outside of all ranges are left alone.
func Adopt(ctx context.Context, to Addresses, services []corev1.Service) (int, error) {
	taken, err := to.Taken(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the addresses that are taken: %w", err)
	}
	ranges, err := to.Ranges(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the ranges of addresses: %w", err)
	}
	recorded := make(map[netip.Addr]struct{}, len(taken))
	for _, ip := range taken {
		recorded[ip] = struct{}{}
	}
	made := 0
	for i := range services {
		for _, ip := range heldIPs(&services[i]) {
			if _, ok := recorded[ip]; ok || !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return Holds(r, ip) }) {
				continue
			}
			won, err := to.Take(ctx, ip, NameOf(&services[i]))
			if err != nil {
				return made, fmt.Errorf("record %s, which service %s holds: %w", ip, NameOf(&services[i]), err)
			}
			if won {
				made++
			}
		}
	}
	return made, nil
}

// refreshAddresses brings memory to the records.
func (a *Allocator) refreshAddresses(ctx context.Context) error {
	taken, err := a.addresses.Taken(ctx)
	if err != nil {
		return fmt.Errorf("read the addresses that are taken: %w", err)
	}
	a.pool.reset(taken)
	return nil
}

func (a *Allocator) isLoaded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loaded
}

// NameOf is how records name a service.
func NameOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}

// Held lists the cluster IPs and node ports that a service holds.
func Held(svc *corev1.Service) (ips []string, ports []int32) {
	if svc.Spec.Type != corev1.ServiceTypeExternalName {
		all := svc.Spec.ClusterIPs
		if len(all) == 0 && svc.Spec.ClusterIP != "" {
			all = []string{svc.Spec.ClusterIP}
		}
		for _, ip := range all {
			if ip != "" && ip != corev1.ClusterIPNone {
				ips = append(ips, ip)
			}
		}
	}
	seen := map[int32]bool{}
	for i := range svc.Spec.Ports {
		if p := svc.Spec.Ports[i].NodePort; p != 0 && !seen[p] {
			seen[p] = true
			ports = append(ports, p)
		}
	}
	if p := svc.Spec.HealthCheckNodePort; p != 0 && !seen[p] {
		ports = append(ports, p)
	}
	return ips, ports
}

// heldIPs are the addresses that can be read of those that a service holds.
func heldIPs(svc *corev1.Service) []netip.Addr {
	var out []netip.Addr
	ips, _ := Held(svc)
	for _, s := range ips {
		if ip, ok := parseIP(s); ok {
			out = append(out, ip)
		}
	}
	return out
}

// Release frees all that a deleted service held.
func (a *Allocator) Release(svc *corev1.Service) {
	a.giveIPs(NameOf(svc), heldIPs(svc))
	_, ports := Held(svc)
	var names []string
	defer func() { a.give(names) }()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range ports {
		if n, ok := a.portIndex(p); ok {
			a.ports.free(n)
			names = append(names, portClaim(p))
		}
	}
}

// giveIPs removes the records of what a service has no use for. A record that
// stays, since the store cannot be reached or another service has it, is found
// by the repair of the records.
func (a *Allocator) giveIPs(service types.NamespacedName, ips []netip.Addr) {
	if a.addresses == nil || len(ips) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	for _, ip := range ips {
		if a.addresses.Give(ctx, ip, service) == nil {
			a.pool.free(ip)
		}
	}
}

func (a *Allocator) portIndex(port int32) (int, bool) {
	n := int(port) - a.portRange.Base
	return n, n >= 0 && n < a.portRange.Size
}
