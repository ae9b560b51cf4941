package ipalloc

import (
	"context"
	"errors"
	"fmt"
)

// Txn is what one write of a service takes and gives up. It is used by one
// goroutine and ends with Commit or Revert; after either, both do nothing.
type Txn struct {
	a      *Allocator
	ctx    context.Context //nolint:containedctx // of the one request that the Txn is part of
	dryRun bool
	done   bool

	ips, ports         []int // taken
	freeIPs, freePorts []int // to be freed by Commit
}

// Begin starts a Txn. In a dry run its allocations are seen by itself alone. ctx
// bounds what the Txn takes.
func (a *Allocator) Begin(ctx context.Context, dryRun bool) *Txn {
	return &Txn{a: a, ctx: ctx, dryRun: dryRun}
}

// IP takes ip, or any address if ip is empty.
func (t *Txn) IP(ip string) (string, error) {
	if !t.a.shared() || t.dryRun {
		return t.localIP(ip)
	}
	if ip == "" {
		err := t.any(&t.ips, func() (string, error) {
			var err error
			ip, err = t.localIP("")
			return ipClaim(ip), err
		})
		return ip, err
	}
	n, ok := t.a.ipIndex(ip)
	if !ok {
		return "", ErrIPOutside
	}
	if won, err := t.a.claim(t.ctx, ipClaim(ip)); err != nil || !won {
		return "", firstOf(err, ErrIPAllocated)
	}
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.takeIP(n)
	return ip, nil
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

// localIP takes ip, or any, in memory.
func (t *Txn) localIP(ip string) (string, error) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if ip == "" {
		// The first address is the kubernetes service's and is given out by
		// name only.
		n, err := t.a.ips.next(func(i int) bool { return i == 0 || t.mine(t.ips, i) })
		if err != nil {
			return "", err
		}
		t.takeIP(n)
		return t.a.ipAt(n), nil
	}
	n, ok := t.a.ipIndex(ip)
	if !ok {
		return "", ErrIPOutside
	}
	if t.a.ips.has(n) || t.mine(t.ips, n) {
		return "", ErrIPAllocated
	}
	t.takeIP(n)
	return ip, nil
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
	if n, ok := t.a.ipIndex(ip); ok {
		t.freeIPs = append(t.freeIPs, n)
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

func (t *Txn) end(ips, ports []int) {
	if t.done {
		return
	}
	t.done = true
	if t.dryRun {
		return
	}
	var names []string
	defer func() { t.a.give(names) }()
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	for _, n := range ips {
		t.a.ips.free(n)
		names = append(names, ipClaim(t.a.ipAt(n)))
	}
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

func (t *Txn) takeIP(n int) {
	t.ips = append(t.ips, n)
	if !t.dryRun {
		t.a.ips.take(n)
	}
}

func (t *Txn) takePort(n int) {
	t.ports = append(t.ports, n)
	if !t.dryRun {
		t.a.ports.take(n)
	}
}
