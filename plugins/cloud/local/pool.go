package local

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/api"

	"pintle.dev/pintle/sdk/cloud"
)

// again is how long a service waits that got no address, before it asks once more.
const again = 30 * time.Second

// soon is how long a service waits that lost its address, before it gets another. By then
// the cache has the status without it.
const soon = time.Second

// holding is the address of a service in one family.
type holding struct {
	uid types.UID
	ip  netip.Addr
}

// slot is a service's place for an address of one family.
type slot struct {
	types.NamespacedName
	family corev1.IPFamily
}

// familyOf is the family of an address.
func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

var families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}

// pool is who has which address.
type pool struct {
	ranges []span

	mu    sync.Mutex
	known bool // recall has been called
	held  map[slot]holding
	users map[netip.Addr]types.NamespacedName
}

func newPool(ranges []span) *pool {
	return &pool{ranges: ranges, held: map[slot]holding{}, users: map[netip.Addr]types.NamespacedName{}}
}

func (p *pool) knows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// recall learns from statuses who has which address. Where two have one, the older service
// keeps it. The other loses it when it is asked about, as does one whose address is
// outside the ranges or forbidden.
func (p *pool) recall(services []corev1.Service, f *forbidden) {
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return
	}
	p.known = true
	for i := range services {
		if s := &services[i]; mine(s) {
			for _, family := range familiesOf(s) {
				_ = p.adopt(slot{keyOf(s), family}, s.UID, addressesOf(s, family), f)
			}
		}
	}
}

// familiesOf are those that a service wants addresses of, in its order.
func familiesOf(s *corev1.Service) []corev1.IPFamily {
	if len(s.Spec.IPFamilies) == 0 { // the API server sets them
		return families[:1]
	}
	return s.Spec.IPFamilies
}

// addressesOf are those of a service's status, of one family.
func addressesOf(s *corev1.Service, family corev1.IPFamily) []netip.Addr {
	var list []netip.Addr
	for _, in := range s.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(in.IP); err == nil && familyOf(ip) == family {
			list = append(list, ip)
		}
	}
	return list
}

// adopt gives a service the first address of its status that it may keep. It returns the
// reason against the last one where it may keep none.
func (p *pool) adopt(of slot, uid types.UID, had []netip.Addr, f *forbidden) (why string) {
	for _, ip := range had {
		if why = p.mayKeep(of, ip, f); why == "" {
			p.set(of, holding{uid, ip})
			return ""
		}
	}
	return why
}

// mayKeep is the reason why a service may not keep an address, or "". What others only ask
// for is no reason: else they would take addresses away.
func (p *pool) mayKeep(of slot, ip netip.Addr, f *forbidden) string {
	if !p.in(ip) {
		return "it is not in " + p.texts(p.ranges)
	}
	if user, taken := p.users[ip]; taken && user != of.NamespacedName {
		return "another service has it"
	}
	return f.owned(ip)
}

func (p *pool) set(of slot, h holding) {
	p.unset(of)
	p.held[of], p.users[h.ip] = h, of.NamespacedName
}

func (p *pool) unset(of slot) {
	if h, has := p.held[of]; has {
		delete(p.users, h.ip)
		delete(p.held, of)
	}
}

func (p *pool) in(ip netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(s span) bool { return s.contains(ip) })
}

// of are the ranges of a family.
func (p *pool) of(family corev1.IPFamily) (list []span) {
	for _, s := range p.ranges {
		if familyOf(s.first) == family {
			list = append(list, s)
		}
	}
	return list
}

// has are the addresses of a service, in the order of its families.
func (p *pool) has(name types.NamespacedName, uid types.UID, wanted []corev1.IPFamily) (list []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, family := range wanted {
		if h, has := p.held[slot{name, family}]; has && h.uid == uid {
			list = append(list, h.ip)
		}
	}
	return list
}

// release gives the addresses of a service up, but those of some families; one of the same
// name is another.
func (p *pool) release(name types.NamespacedName, uid types.UID, but ...corev1.IPFamily) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, family := range families {
		of := slot{name, family}
		if h, has := p.held[of]; has && h.uid == uid && !slices.Contains(but, family) {
			p.unset(of)
		}
	}
}

// take gives a service an address of a family: the one that it wants, or has, or the first
// that is free. What it had it keeps where it cannot have what it wants. It loses what it may
// not keep: the error is a cloud.Withdrawn, and the next call gives it another.
func (p *pool) take(of slot, uid types.UID, wanted netip.Addr, had []netip.Addr, f *forbidden) (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, has := p.held[of]; has && (h.uid != uid || p.mayKeep(of, h.ip, f) != "") {
		p.unset(of)
	}
	if _, has := p.held[of]; !has {
		if why := p.adopt(of, uid, had, f); why != "" {
			return netip.Addr{}, &cloud.Withdrawn{Err: api.NewRetryError(fmt.Sprintf("address %s is withdrawn: %s", had[len(had)-1], why), soon)}
		}
	}
	if h, has := p.held[of]; has && (!wanted.IsValid() || h.ip == wanted) {
		return h.ip, nil
	}
	if wanted.IsValid() {
		if err := p.mayHave(of, wanted, f); err != nil {
			return netip.Addr{}, err
		}
		p.set(of, holding{uid, wanted})
		return wanted, nil
	}
	ip, err := p.free(of.family, f)
	if err != nil {
		return netip.Addr{}, err
	}
	p.set(of, holding{uid, ip})
	return ip, nil
}

// mayHave tells whether a service may have the address that it asks for. It does not say
// who has it: who asks may not be allowed to read that.
func (p *pool) mayHave(of slot, wanted netip.Addr, f *forbidden) error {
	why := ""
	if user, taken := p.users[wanted]; !p.in(wanted) {
		why = "it is not in " + p.texts(p.ranges)
	} else if taken && user != of.NamespacedName {
		why = "another service has it"
	} else {
		why = f.why(wanted)
	}
	if why == "" {
		return nil
	}
	return api.NewRetryError(fmt.Sprintf("spec.loadBalancerIP %s: %s; ask for another, or for none", wanted, why), again)
}

// free is the first address of a family that no service has.
func (p *pool) free(family corev1.IPFamily, f *forbidden) (netip.Addr, error) {
	ranges := p.of(family)
	if len(ranges) == 0 {
		return netip.Addr{}, api.NewRetryError(fmt.Sprintf("there are no addresses of %s: give the cloud provider local a range of them (addresses)", family), again)
	}
	for _, s := range ranges {
		for ip := s.first; s.contains(ip); ip = ip.Next() {
			if _, taken := p.users[ip]; !taken && f.why(ip) == "" {
				return ip, nil
			}
		}
	}
	return netip.Addr{}, api.NewRetryError(fmt.Sprintf("no address of %s is free: delete a service of type LoadBalancer, or give the cloud provider local more addresses", p.texts(ranges)), again)
}

// texts are ranges as the configuration has them.
func (p *pool) texts(ranges []span) string {
	var list []string
	for _, s := range ranges {
		list = append(list, s.text)
	}
	return strings.Join(list, ", ")
}
