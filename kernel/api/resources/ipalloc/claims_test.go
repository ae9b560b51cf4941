package ipalloc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/api/resources/ipalloc/ipalloctest"
)

// web is the service of most tests.
var web = types.NamespacedName{Namespace: "default", Name: "web"}

// shelf is Claims in memory.
type shelf struct {
	mu    sync.Mutex
	taken map[string]Claim
	last  int64
	fault error
}

func newShelf() *shelf { return &shelf{taken: map[string]Claim{}} }

func (s *shelf) Claim(_ context.Context, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.taken[name]; ok || s.fault != nil {
		return false, s.fault
	}
	s.last++
	s.taken[name] = Claim{Name: name, Revision: s.last}
	return true, nil
}

func (s *shelf) Release(_ context.Context, names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		delete(s.taken, n)
	}
	return nil
}

func (s *shelf) Claimed(context.Context) ([]Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Claim
	for _, c := range s.taken {
		out = append(out, c)
	}
	return out, nil
}

func (s *shelf) Expire(_ context.Context, c Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[c.Name].Revision == c.Revision {
		delete(s.taken, c.Name)
	}
	return nil
}

// cluster is two allocators of one small range, with the services that both see.
func cluster(t *testing.T, services *[]corev1.Service) (*shelf, [2]*Allocator) {
	t.Helper()
	claims, records := newShelf(), ipalloctest.New("10.0.0.0/28")
	var out [2]*Allocator
	for i := range out {
		a, err := New(Config{CIDR: "10.0.0.0/28", NodePorts: "30000-30003", Claims: claims, Addresses: records})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Load(t.Context(), func(context.Context) ([]corev1.Service, error) { return *services, nil }); err != nil {
			t.Fatal(err)
		}
		out[i] = a
	}
	return claims, out
}

// TestSharedRange: two kernels hand out each address and port once, down to the
// last, and what one gives up the other can give out.
func TestSharedRange(t *testing.T) {
	var services []corev1.Service
	_, kernels := cluster(t, &services)
	var mu sync.Mutex
	var ips []string
	var ports []int32
	var wg sync.WaitGroup
	for _, a := range kernels {
		wg.Go(func() {
			for {
				txn := a.Begin(t.Context(), web, false)
				ip, err := txn.IP(corev1.IPv4Protocol, "")
				if errors.Is(err, ErrFull) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				port, err := txn.Port(0)
				if err != nil && !errors.Is(err, ErrFull) {
					t.Error(err)
				}
				txn.Commit()
				mu.Lock()
				ips = append(ips, ip)
				if err == nil {
					ports = append(ports, port)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(ips)
	slices.Sort(ports)
	// 16 less network, broadcast, and the first, which is given by name only.
	if n := len(slices.Compact(ips)); n != 13 || len(ips) != 13 {
		t.Errorf("%d addresses were handed out, %d of them different; want 13", len(ips), n)
	}
	if n := len(slices.Compact(ports)); n != 4 || len(ports) != 4 {
		t.Errorf("%d ports were handed out, %d of them different; want 4", len(ports), n)
	}
	given := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}, Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips[:1]}}
	kernels[0].Release(&given)
	if ip, err := kernels[1].Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, ips[0]); err != nil || ip != ips[0] {
		t.Errorf("what the other kernel gave up: %q, %v", ip, err)
	}
	if _, err := kernels[0].Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, ips[0]); !errors.Is(err, ErrIPAllocated) {
		t.Errorf("an address that the other kernel has: %v", err)
	}
}

// TestClaimsOfTheDead: a claim whose kernel died before it wrote the service is
// given up in time, one that is being used is not, and a service whose claim is
// missing gets it back. The time is that of who looks: a kernel whose clock is
// ahead takes no port that another one's service is being created with.
func TestClaimsOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := []corev1.Service{{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{NodePort: 30000}}}}}
		claims, kernels := cluster(t, &services)
		claims.taken["port/30001"] = Claim{Name: "port/30001", Revision: 100}
		take := func(round string, wants map[int32]error) {
			t.Helper()
			for port, want := range wants {
				if _, err := kernels[0].Begin(t.Context(), web, false).Port(port); !errors.Is(err, want) {
					t.Errorf("%s, %d: %v, want %v", round, port, err, want)
				}
			}
		}
		take("at once", map[int32]error{30000: ErrPortAllocated, 30001: ErrPortAllocated})
		time.Sleep(claimGrace + time.Second)
		claims.taken["port/30002"] = Claim{Name: "port/30002", Revision: 101}
		take("a minute later", map[int32]error{30000: ErrPortAllocated, 30001: nil, 30002: ErrPortAllocated})
		// Somebody else has it now: its time begins anew.
		claims.taken["port/30002"] = Claim{Name: "port/30002", Revision: 102}
		time.Sleep(claimGrace + time.Second)
		take("after another one took it", map[int32]error{30002: ErrPortAllocated})
	})
}

// TestClaimsOfOlderKernels: what kernels claimed before cluster IPs had records is
// no port, keeps nobody from an address, and is given up in time.
func TestClaimsOfOlderKernels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims, kernels := cluster(t, &[]corev1.Service{})
		claims.taken["ip/10.0.0.6"] = Claim{Name: "ip/10.0.0.6", Revision: 100}
		if err := kernels[0].refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ip, err := kernels[0].Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, "10.0.0.6"); err != nil {
			t.Errorf("%s, %v", ip, err)
		}
		time.Sleep(claimGrace + time.Second)
		if err := kernels[0].refresh(t.Context()); err != nil || len(claims.taken) != 0 {
			t.Errorf("%v, %v", claims.taken, err)
		}
	})
}

// TestClaimsOfWritesThatFail: a write that fails gives back what it took.
func TestClaimsOfWritesThatFail(t *testing.T) {
	services := []corev1.Service{}
	claims, kernels := cluster(t, &services)
	txn := kernels[0].Begin(t.Context(), web, false)
	port, err := txn.Port(0)
	if err != nil {
		t.Fatal(err)
	}
	ip, err := txn.IP(corev1.IPv4Protocol, "")
	if err != nil {
		t.Fatal(err)
	}
	txn.Revert()
	other := kernels[1].Begin(t.Context(), web, false)
	if _, err := other.Port(port); err != nil {
		t.Errorf("what a failed write took: %v", err)
	}
	if _, err := other.IP(corev1.IPv4Protocol, ip); err != nil {
		t.Errorf("what a failed write took: %v", err)
	}
	claims.fault = errors.New("etcd is away")
	if _, err := kernels[0].Begin(t.Context(), web, false).Port(0); !errors.Is(err, claims.fault) {
		t.Errorf("while claims cannot be made: %v", err)
	}
	if _, err := kernels[0].Begin(t.Context(), web, true).Port(0); err != nil {
		t.Errorf("a dry run claims nothing: %v", err)
	}
}
