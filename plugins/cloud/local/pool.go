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

// holding is the address of a service.
type holding struct {
	uid types.UID
	ip  netip.Addr
}

// pool is who has which address.
type pool struct {
	ranges []span

	mu    sync.Mutex
	known bool // recall has been called
	held  map[types.NamespacedName]holding
	users map[netip.Addr]types.NamespacedName
}

func newPool(ranges []span) *pool {
	return &pool{ranges: ranges, held: map[types.NamespacedName]holding{}, users: map[netip.Addr]types.NamespacedName{}}
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
			_ = p.adopt(keyOf(s), s.UID, addressesOf(s), f)
		}
	}
}

// addressesOf are those of a service's status.
func addressesOf(s *corev1.Service) []netip.Addr {
	var list []netip.Addr
	for _, in := range s.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(in.IP); err == nil {
			list = append(list, ip)
		}
	}
	return list
}

// adopt gives a service the first address of its status that it may keep. It returns the
// reason against the last one where it may keep none.
func (p *pool) adopt(name types.NamespacedName, uid types.UID, had []netip.Addr, f *forbidden) (why string) {
	for _, ip := range had {
		if why = p.mayKeep(name, ip, f); why == "" {
			p.set(name, holding{uid, ip})
			return ""
		}
	}
	return why
}

// mayKeep is the reason why a service may not keep an address, or "". What others only ask
// for is no reason: else they would take addresses away.
func (p *pool) mayKeep(name types.NamespacedName, ip netip.Addr, f *forbidden) string {
	if !p.in(ip) {
		return "it is not in " + p.texts()
	}
	if user, taken := p.users[ip]; taken && user != name {
		return "another service has it"
	}
	return f.owned(ip)
}

func (p *pool) set(name types.NamespacedName, h holding) {
	p.unset(name)
	p.held[name], p.users[h.ip] = h, name
}

func (p *pool) unset(name types.NamespacedName) {
	if h, has := p.held[name]; has {
		delete(p.users, h.ip)
		delete(p.held, name)
	}
}

func (p *pool) in(ip netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(s span) bool { return s.contains(ip) })
}

// has is the address of a service.
func (p *pool) has(name types.NamespacedName, uid types.UID) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, has := p.held[name]
	return h.ip, has && h.uid == uid
}

// release gives the address of a service up; one of the same name is another.
func (p *pool) release(name types.NamespacedName, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, has := p.held[name]; has && h.uid == uid {
		p.unset(name)
	}
}

// take gives a service an address: the one that it wants, or has, or the first that is
// free. What it had it keeps where it cannot have what it wants. It loses what it may not
// keep: the error is a cloud.Withdrawn, and the next call gives it another.
func (p *pool) take(name types.NamespacedName, uid types.UID, wanted netip.Addr, had []netip.Addr, f *forbidden) (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, has := p.held[name]; has && (h.uid != uid || p.mayKeep(name, h.ip, f) != "") {
		p.unset(name)
	}
	if _, has := p.held[name]; !has {
		if why := p.adopt(name, uid, had, f); why != "" {
			return netip.Addr{}, &cloud.Withdrawn{Err: api.NewRetryError(fmt.Sprintf("address %s is withdrawn: %s", had[len(had)-1], why), soon)}
		}
	}
	if h, has := p.held[name]; has && (!wanted.IsValid() || h.ip == wanted) {
		return h.ip, nil
	}
	if wanted.IsValid() {
		if err := p.mayHave(name, wanted, f); err != nil {
			return netip.Addr{}, err
		}
		p.set(name, holding{uid, wanted})
		return wanted, nil
	}
	ip, err := p.free(f)
	if err != nil {
		return netip.Addr{}, err
	}
	p.set(name, holding{uid, ip})
	return ip, nil
}

// mayHave tells whether a service may have the address that it asks for. It does not say
// who has it: who asks may not be allowed to read that.
func (p *pool) mayHave(name types.NamespacedName, wanted netip.Addr, f *forbidden) error {
	why := ""
	if user, taken := p.users[wanted]; !p.in(wanted) {
		why = "it is not in " + p.texts()
	} else if taken && user != name {
		why = "another service has it"
	} else {
		why = f.why(wanted)
	}
	if why == "" {
		return nil
	}
	return api.NewRetryError(fmt.Sprintf("spec.loadBalancerIP %s: %s; ask for another, or for none", wanted, why), again)
}

// free is the first address that nobody has.
func (p *pool) free(f *forbidden) (netip.Addr, error) {
	var all int
	for _, s := range p.ranges {
		all += int(s.size())
	}
	if len(p.users) < all {
		for _, s := range p.ranges {
			for n := number(s.first); n <= number(s.last); n++ {
				ip := address(n)
				if _, taken := p.users[ip]; !taken && f.why(ip) == "" {
					return ip, nil
				}
			}
		}
	}
	return netip.Addr{}, api.NewRetryError(fmt.Sprintf("no address of %s is free: delete a service of type LoadBalancer, or give the cloud provider local more addresses", p.texts()), again)
}

// texts are the ranges as the configuration has them.
func (p *pool) texts() string {
	var list []string
	for _, s := range p.ranges {
		list = append(list, s.text)
	}
	return strings.Join(list, ", ")
}
