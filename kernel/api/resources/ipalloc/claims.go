package ipalloc

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Claims keeps which node ports are taken where the other allocators of the same
// range see it. Names are "port/NUMBER"; "ip/ADDRESS" are what kernels claimed
// before cluster IPs had records. Safe for concurrent use.
type Claims interface {
	// Claim takes a name; false means that somebody has it.
	Claim(ctx context.Context, name string) (bool, error)
	// Release gives names up; unknown ones are no error.
	Release(ctx context.Context, names ...string) error
	// Claimed lists what is taken.
	Claimed(ctx context.Context) ([]Claim, error)
	// Expire gives a claim up unless it has changed since it was listed.
	Expire(ctx context.Context, c Claim) error
}

// Claim is a name that is taken.
type Claim struct {
	Name     string
	Revision int64 // of its making
}

const (
	// claimGrace is how long a claim is seen without the service that it was
	// made for before it is given up: longer than a create takes. A kernel that is
	// killed in between leaves such a claim. Who looks measures it on a clock of
	// its own: those of several machines need not agree.
	claimGrace = time.Minute
	// releaseTimeout bounds giving up; what fails is found by the next refresh.
	releaseTimeout = 5 * time.Second
)

func portClaim(port int32) string { return "port/" + strconv.Itoa(int(port)) }
func (a *Allocator) shared() bool { return a.claims != nil }
func (a *Allocator) give(n []string) {
	if !a.shared() || len(n) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_ = a.claims.Release(ctx, n...)
}

// claim takes a name that a user chose. One that is taken is looked at again
// after what nobody needs was given up.
func (a *Allocator) claim(ctx context.Context, name string) (bool, error) {
	won, err := a.claims.Claim(ctx, name)
	if err != nil || won {
		return won, err
	}
	if err := a.refresh(ctx); err != nil {
		return false, err
	}
	return a.claims.Claim(ctx, name)
}

// unheld is a claim that no service held when it was first looked at.
type unheld struct {
	revision int64
	since    time.Time
}

// idle is for how long this allocator has known a claim that no service holds.
func (a *Allocator) idle(c Claim) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seen, ok := a.unheld[c.Name]; ok && seen.revision == c.Revision {
		return time.Since(seen.since)
	}
	if a.unheld == nil {
		a.unheld = map[string]unheld{}
	}
	a.unheld[c.Name] = unheld{c.Revision, time.Now()}
	return 0
}

// refresh brings claims and memory to what the stored services hold: claims
// that no service needs are given up, services without claims get them.
func (a *Allocator) refresh(ctx context.Context) error {
	// Claims are listed first: each one that is there has its service in the
	// list, or its service is being created, or it is left over.
	claims, err := a.claims.Claimed(ctx)
	if err != nil {
		return fmt.Errorf("read the node ports that are taken: %w", err)
	}
	services, err := a.list(ctx)
	if err != nil {
		return fmt.Errorf("read the services that hold node ports: %w", err)
	}
	held := a.names(services)
	kept := map[string]bool{}
	for _, c := range claims {
		if !held[c.Name] && a.idle(c) > claimGrace {
			if err := a.claims.Expire(ctx, c); err != nil {
				return fmt.Errorf("give up %s, which no service holds: %w", c.Name, err)
			}
			continue
		}
		kept[c.Name] = true
	}
	for name := range held {
		if !kept[name] {
			if _, err := a.claims.Claim(ctx, name); err != nil {
				return fmt.Errorf("take %s, which a service holds: %w", name, err)
			}
			kept[name] = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.unheld {
		if held[name] || !kept[name] {
			delete(a.unheld, name)
		}
	}
	a.ports = newBand(a.ports.size, a.ports.offset)
	for name := range kept {
		a.mark(name)
	}
	return nil
}

// names are the claims that services need, of the range.
func (a *Allocator) names(services []corev1.Service) map[string]bool {
	out := map[string]bool{}
	for i := range services {
		_, ports := Held(&services[i])
		for _, p := range ports {
			if _, ok := a.portIndex(p); ok {
				out[portClaim(p)] = true
			}
		}
	}
	return out
}

// mark takes a claim's number in memory; mu is held.
func (a *Allocator) mark(name string) {
	if number, ok := strings.CutPrefix(name, "port/"); ok {
		if p, err := strconv.ParseInt(number, 10, 32); err == nil {
			if n, ok := a.portIndex(int32(p)); ok {
				a.ports.take(n)
			}
		}
	}
}
