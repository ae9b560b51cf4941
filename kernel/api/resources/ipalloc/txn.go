package ipalloc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Txn is what one write of a service takes and gives up. It is used by one
// goroutine and ends with Commit or Revert; after either, both do nothing.
type Txn struct {
	a       *Allocator
	ctx     context.Context //nolint:containedctx // of the one request that the Txn is part of
	service types.NamespacedName
	dryRun  bool
	done    bool

	ips       []netip.Addr // taken
	ports     []int        // taken
	freeIPs   []netip.Addr // to be freed by Commit
	freePorts []int
}

// Begin starts a Txn of a service. In a dry run its allocations are seen by itself
// alone. ctx bounds what the Txn takes.
func (a *Allocator) Begin(ctx context.Context, service types.NamespacedName, dryRun bool) *Txn {
	return &Txn{a: a, ctx: ctx, service: service, dryRun: dryRun}
}

// IP takes ip, or any address of a family of the cluster if ip is empty.
func (t *Txn) IP(family corev1.IPFamily, ip string) (string, error) {
	if t.a.addresses == nil {
		return "", ErrNotReady
	}
	ranges, err := t.ranges(family)
	if err != nil {
		return "", err
	}
	if ip == "" {
		return t.anyIP(ranges, t.a.first[family])
	}
	addr, ok := parseIP(ip)
	if !ok || !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return Holds(r, addr) }) {
		return "", ErrIPOutside
	}
	if t.dryRun {
		if t.a.pool.has(addr) || slices.Contains(t.ips, addr) {
			return "", ErrIPAllocated
		}
		t.ips = append(t.ips, addr)
		return ip, nil
	}
	won, err := t.a.addresses.Take(t.ctx, addr, t.service)
	if err != nil {
		return "", err
	}
	t.a.pool.take(addr)
	if !won {
		return "", ErrIPAllocated
	}
	t.ips = append(t.ips, addr)
	return ip, nil
}

// ranges are those that are ready, of a family.
func (t *Txn) ranges(family corev1.IPFamily) ([]netip.Prefix, error) {
	all, err := t.a.addresses.Ranges(t.ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ranges of addresses: %w", err)
	}
	t.a.pool.follow(all)
	return slices.DeleteFunc(slices.Clone(all), func(r netip.Prefix) bool { return familyOf(r.Addr()) != family }), nil
}

// anyIP takes what memory offers until it has the record. What somebody else has
// stays marked; ranges that seem full are looked at anew once. The address keep is given by name only.
func (t *Txn) anyIP(ranges []netip.Prefix, keep netip.Addr) (string, error) {
	for refreshed := false; ; refreshed = true {
		for _, r := range ranges {
			for {
				ip, err := t.a.pool.next(r, keep, t.ips, t.dryRun)
				if errors.Is(err, ErrFull) {
					break
				}
				won := t.dryRun
				if !won {
					if won, err = t.a.addresses.Take(t.ctx, ip, t.service); err != nil {
						t.a.pool.free(ip)
						return "", err
					}
				}
				if won {
					t.ips = append(t.ips, ip)
					return ip.String(), nil
				}
			}
		}
		if refreshed {
			return "", ErrFull
		}
		if err := t.a.refreshAddresses(t.ctx); err != nil {
			return "", err
		}
	}
}

// Port takes port, or any if it is 0.
func (t *Txn) Port(port int32) (int32, error) {
	if !t.a.shared() || t.dryRun {
		return t.localPort(port)
	}
	if port == 0 {
		err := t.any(&t.ports, func() (string, error) {
			var err error
			port, err = t.localPort(0)
			return portClaim(port), err
		})
		return port, err
	}
	n, ok := t.a.portIndex(port)
	if !ok {
		return t.localPort(port) // which says why
	}
	if won, err := t.a.claim(t.ctx, portClaim(port)); err != nil || !won {
		return 0, firstOf(err, ErrPortAllocated)
	}
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.takePort(n)
	return port, nil
}

func firstOf(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// any takes what local offers until a claim for it is won. What another kernel
// has stays marked here; a range that seems full is looked at anew once.
func (t *Txn) any(list *[]int, local func() (string, error)) error {
	refreshed := false
	for {
		name, err := local()
		if errors.Is(err, ErrFull) && !refreshed {
			refreshed = true
			if err := t.a.refresh(t.ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		won, err := t.a.claims.Claim(t.ctx, name)
		if won {
			return nil
		}
		*list = (*list)[:len(*list)-1]
		if err != nil {
			return err
		}
	}
}

// localPort takes port, or any, in memory.
func (t *Txn) localPort(port int32) (int32, error) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if port == 0 {
		n, err := t.a.ports.next(func(i int) bool { return t.mine(t.ports, i) })
		if err != nil {
			return 0, err
		}
		t.takePort(n)
		return int32(t.a.portRange.Base + n), nil
	}
	n, ok := t.a.portIndex(port)
	if !ok {
		return 0, fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", t.a.portRange.String())
	}
	if t.a.ports.has(n) || t.mine(t.ports, n) {
		return 0, ErrPortAllocated
	}
	t.takePort(n)
	return port, nil
}

// ReleaseIP gives up an address once the write has succeeded.
func (t *Txn) ReleaseIP(ip string) {
	if addr, ok := parseIP(ip); ok {
		t.freeIPs = append(t.freeIPs, addr)
	}
}

// ReleasePort gives up a port once the write has succeeded.
func (t *Txn) ReleasePort(port int32) {
	if n, ok := t.a.portIndex(port); ok {
		t.freePorts = append(t.freePorts, n)
	}
}

// Commit keeps what was taken and frees what was given up.
func (t *Txn) Commit() { t.end(t.freeIPs, t.freePorts) }

// Revert gives back what was taken.
func (t *Txn) Revert() { t.end(t.ips, t.ports) }

func (t *Txn) end(ips []netip.Addr, ports []int) {
	if t.done {
		return
	}
	t.done = true
	if t.dryRun {
		return
	}
	t.a.giveIPs(t.service, ips)
	var names []string
	defer func() { t.a.give(names) }()
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	for _, n := range ports {
		t.a.ports.free(n)
		names = append(names, portClaim(int32(t.a.portRange.Base+n)))
	}
}

// mine: in a dry run, what is taken is in the Txn's own list only.
func (t *Txn) mine(list []int, n int) bool {
	if !t.dryRun {
		return false
	}
	for _, i := range list {
		if i == n {
			return true
		}
	}
	return false
}

func (t *Txn) takePort(n int) {
	t.ports = append(t.ports, n)
	if !t.dryRun {
		t.a.ports.take(n)
	}
}
