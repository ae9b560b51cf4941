package ipalloc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Errors of allocations by name, in upstream's words.
var (
	ErrIPAllocated   = errors.New("provided IP is already allocated")
	ErrPortAllocated = errors.New("provided port is already allocated")
	// ErrIPOutside is for addresses of no configured range.
	ErrIPOutside = errors.New("the provided network does not match the current range")
)

// maxSize bounds the bit set: larger ranges give out their first 2^20
// addresses only.
const maxSize = 1 << 20

// Config of an Allocator.
type Config struct {
	// CIDR is the range of cluster IPs, like 10.96.0.0/16. Required.
	CIDR string
	// NodePorts is "first-last"; default 30000-32767.
	NodePorts string
	// Claims are shared with other allocators of the same ranges; nil: there is
	// no other.
	Claims Claims
}

// Allocator hands out addresses and ports. It is safe for concurrent use.
type Allocator struct {
	prefix    netip.Prefix
	family    corev1.IPFamily
	portRange utilnet.PortRange
	claims    Claims
	list      func(context.Context) ([]corev1.Service, error) // set by Load, before claims are used

	loading sync.Mutex // held while services are read
	mu      sync.Mutex
	loaded  bool
	ips     *band // index 0 is the address after the network address
	ports   *band
	unheld  map[string]unheld // claims without a service, by name
}

// New reads the ranges. The Allocator is empty until Load.
func New(cfg Config) (*Allocator, error) {
	prefix, err := netip.ParsePrefix(cfg.CIDR)
	if err != nil {
		return nil, fmt.Errorf("service CIDR %q: %w; use a range like 10.96.0.0/16", cfg.CIDR, err)
	}
	if prefix != prefix.Masked() {
		return nil, fmt.Errorf("service CIDR %q: has host bits set; use %s", cfg.CIDR, prefix.Masked())
	}
	a := &Allocator{prefix: prefix, family: corev1.IPv4Protocol, claims: cfg.Claims}
	size := maxSize
	if host := prefix.Addr().BitLen() - prefix.Bits(); host < 20 {
		size = 1 << host
	}
	size-- // the network address
	if prefix.Addr().Is4() {
		if prefix.Addr().BitLen()-prefix.Bits() < 20 {
			size-- // the broadcast address
		}
	} else {
		a.family = corev1.IPv6Protocol
	}
	if size < 2 {
		return nil, fmt.Errorf("service CIDR %q: too small; use /29 or larger", cfg.CIDR)
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
	a.ips = newBand(size, lowerBand(size+1, 16, 256))
	a.ports = newBand(ports.Size, lowerBand(ports.Size, 32, 128))
	return a, nil
}

// Family is the family of the range.
func (a *Allocator) Family() corev1.IPFamily { return a.family }

// Load marks what the stored services hold, once; later calls do nothing. list
// is asked again at the next call if it fails. Values outside the ranges and
// values that two services hold are left alone: the first release frees them.
func (a *Allocator) Load(ctx context.Context, list func(context.Context) ([]corev1.Service, error)) error {
	a.loading.Lock()
	defer a.loading.Unlock()
	if a.isLoaded() {
		return nil
	}
	if a.shared() {
		a.list = list
		if err := a.refresh(ctx); err != nil {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.loaded = true
		return nil
	}
	services, err := list(ctx)
	if err != nil {
		return fmt.Errorf("read the services that hold addresses: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range services {
		ips, ports := Held(&services[i])
		for _, ip := range ips {
			if n, ok := a.ipIndex(ip); ok {
				a.ips.take(n)
			}
		}
		for _, port := range ports {
			if n, ok := a.portIndex(port); ok {
				a.ports.take(n)
			}
		}
	}
	a.loaded = true
	return nil
}

func (a *Allocator) isLoaded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loaded
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

// Release frees all that a deleted service held.
func (a *Allocator) Release(svc *corev1.Service) {
	ips, ports := Held(svc)
	var names []string
	defer func() { a.give(names) }()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range ips {
		if n, ok := a.ipIndex(ip); ok {
			a.ips.free(n)
			names = append(names, ipClaim(ip))
		}
	}
	for _, p := range ports {
		if n, ok := a.portIndex(p); ok {
			a.ports.free(n)
			names = append(names, portClaim(p))
		}
	}
}

// Contains tells whether ip can be allocated at all.
func (a *Allocator) Contains(ip string) bool {
	_, ok := a.ipIndex(ip)
	return ok
}

func (a *Allocator) ipIndex(ip string) (int, bool) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return 0, false
	}
	addr = addr.Unmap()
	if !a.prefix.Contains(addr) {
		return 0, false
	}
	base, at := a.prefix.Addr().As16(), addr.As16()
	n := 0
	for i := range at {
		if n > maxSize {
			return 0, false
		}
		n = n<<8 + int(at[i]) - int(base[i])
	}
	n-- // the network address has none
	return n, n >= 0 && n < a.ips.size
}

func (a *Allocator) ipAt(n int) string {
	at := a.prefix.Addr().As16()
	carry := n + 1
	for i := 15; i >= 0 && carry > 0; i-- {
		carry += int(at[i])
		at[i] = byte(carry)
		carry >>= 8
	}
	return netip.AddrFrom16(at).Unmap().String()
}

func (a *Allocator) portIndex(port int32) (int, bool) {
	n := int(port) - a.portRange.Base
	return n, n >= 0 && n < a.portRange.Size
}
