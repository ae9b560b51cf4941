package ipalloc

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Addresses keeps which cluster IPs are taken, with a record each, where all
// allocators of the same ranges see it. Safe for concurrent use.
type Addresses interface {
	// Take records that a service has an address; false: there is a record already.
	Take(ctx context.Context, ip netip.Addr, service types.NamespacedName) (bool, error)
	// Give removes the record of an address if it names the service.
	Give(ctx context.Context, ip netip.Addr, service types.NamespacedName) error
	// Taken lists the recorded addresses.
	Taken(ctx context.Context) ([]netip.Addr, error)
	// Ranges are those that addresses may be taken from now, in the order to draw from.
	Ranges(ctx context.Context) ([]netip.Prefix, error)
}

// maxSize bounds the bit set of a range: of larger ones the first 2^20 addresses
// are drawn from; others can be had by name.
const maxSize = 1 << 20

// pool is what an allocator remembers of addresses: where to look first. The
// records decide.
type pool struct {
	mu     sync.Mutex
	taken  map[netip.Addr]struct{}
	ranges map[netip.Prefix]*ipRange
}

func newPool() *pool {
	return &pool{taken: map[netip.Addr]struct{}{}, ranges: map[netip.Prefix]*ipRange{}}
}

func (p *pool) has(ip netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.taken[ip]
	return ok
}

func (p *pool) take(ip netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(ip)
}

// put marks an address; mu is held.
func (p *pool) put(ip netip.Addr) {
	p.taken[ip] = struct{}{}
	for _, r := range p.ranges {
		if n, ok := r.index(ip); ok {
			r.band.take(n)
		}
	}
}

func (p *pool) free(ip netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, ip)
	for _, r := range p.ranges {
		if n, ok := r.index(ip); ok {
			r.band.free(n)
		}
	}
}

// reset forgets all but what is listed.
func (p *pool) reset(taken []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.taken)
	clear(p.ranges)
	for _, ip := range taken {
		p.taken[ip] = struct{}{}
	}
}

// follow drops what is kept for ranges that are gone.
func (p *pool) follow(ranges []netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for prefix := range p.ranges {
		if !slices.Contains(ranges, prefix) {
			delete(p.ranges, prefix)
		}
	}
}

// next marks a free address of a range and gives it; keep is left out, and with
// dryRun nothing is marked.
func (p *pool) next(prefix netip.Prefix, keep netip.Addr, mine []netip.Addr, dryRun bool) (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranges[prefix]
	if r == nil {
		r = newRange(prefix)
		p.ranges[prefix] = r
		for ip := range p.taken {
			if n, ok := r.index(ip); ok {
				r.band.take(n)
			}
		}
	}
	n, err := r.band.next(func(i int) bool {
		ip := r.at(i)
		return ip == keep || dryRun && slices.Contains(mine, ip)
	})
	if err != nil {
		return netip.Addr{}, err
	}
	ip := r.at(n)
	if !dryRun {
		p.put(ip)
	}
	return ip, nil
}

// ipRange is a range and which of its addresses are taken: number 0 is the
// address after the network address.
type ipRange struct {
	prefix netip.Prefix
	band   *band
}

func newRange(prefix netip.Prefix) *ipRange {
	size := maxSize
	bits := prefix.Addr().BitLen() - prefix.Bits()
	if bits < 20 {
		size = 1 << bits
	}
	usable := size - 1 // without the network address
	if prefix.Addr().Is4() && bits < 20 {
		usable-- // without the broadcast address
	}
	return &ipRange{prefix: prefix, band: newBand(max(usable, 0), lowerBand(size, 16, 256))}
}

func (r *ipRange) index(ip netip.Addr) (int, bool) {
	if !r.prefix.Contains(ip) {
		return 0, false
	}
	base, at := r.prefix.Addr().As16(), ip.As16()
	n := 0
	for i := range at {
		if n > maxSize {
			return 0, false
		}
		n = n<<8 + int(at[i]) - int(base[i])
	}
	n-- // the network address has none
	return n, n >= 0 && n < r.band.size
}

func (r *ipRange) at(n int) netip.Addr {
	at := r.prefix.Addr().As16()
	carry := n + 1
	for i := 15; i >= 0 && carry > 0; i-- {
		carry += int(at[i])
		at[i] = byte(carry)
		carry >>= 8
	}
	ip := netip.AddrFrom16(at)
	if r.prefix.Addr().Is4() {
		return ip.Unmap()
	}
	return ip
}

// Holds tells whether a range has an address to give: all but the network
// address and, in IPv4, the broadcast address.
func Holds(r netip.Prefix, ip netip.Addr) bool {
	if !r.Contains(ip) || ip == r.Masked().Addr() {
		return false
	}
	return !ip.Is4() || r.Contains(ip.Next())
}

// parseIP reads an address as services have it.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	return ip.Unmap(), err == nil && ip.Zone() == ""
}
