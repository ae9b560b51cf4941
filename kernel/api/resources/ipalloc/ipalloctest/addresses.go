// Package ipalloctest keeps the records of cluster IPs in memory, for tests of
// what allocates them.
package ipalloctest

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Addresses are ipalloc.Addresses in memory.
type Addresses struct {
	mu     sync.Mutex
	ranges []netip.Prefix
	of     map[netip.Addr]types.NamespacedName
	fault  error
}

// New makes records over ranges, which have to be readable.
func New(ranges ...string) *Addresses {
	a := &Addresses{of: map[netip.Addr]types.NamespacedName{}}
	a.SetRanges(ranges...)
	return a
}

// SetRanges replaces the ranges.
func (a *Addresses) SetRanges(ranges ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ranges = nil
	for _, r := range ranges {
		a.ranges = append(a.ranges, netip.MustParsePrefix(r))
	}
}

// Fail has everything fail with err from now on.
func (a *Addresses) Fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = err
}

// Of is whose an address is.
func (a *Addresses) Of(ip string) types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[netip.MustParseAddr(ip)]
}

// Take implements ipalloc.Addresses.
func (a *Addresses) Take(_ context.Context, ip netip.Addr, service types.NamespacedName) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.of[ip]; ok || a.fault != nil {
		return false, a.fault
	}
	a.of[ip] = service
	return true, nil
}

// Give implements ipalloc.Addresses.
func (a *Addresses) Give(_ context.Context, ip netip.Addr, service types.NamespacedName) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault == nil && a.of[ip] == service {
		delete(a.of, ip)
	}
	return a.fault
}

// Taken implements ipalloc.Addresses.
func (a *Addresses) Taken(context.Context) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []netip.Addr
	for ip := range a.of {
		out = append(out, ip)
	}
	return out, a.fault
}

// Ranges implements ipalloc.Addresses.
func (a *Addresses) Ranges(context.Context) ([]netip.Prefix, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.ranges), a.fault
}
