package ipalloc

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{}, {CIDR: "x"}, {CIDR: "10.0.0.1/24"}, {CIDR: "10.0.0.0/31"}, {CIDR: "10.0.0.0/24", NodePorts: "x"}, {CIDR: "10.0.0.0/24", NodePorts: "9-3"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v: accepted", cfg)
		}
	}
}

func TestRangeIsUsedUp(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/27", "10.0.0.0/22", "fd00::/122"} {
		a, err := New(Config{CIDR: cidr})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					txn := a.Begin(t.Context(), false)
					ip, err := txn.IP("")
					if err != nil {
						if !errors.Is(err, ErrFull) {
							t.Error(err)
						}
						return
					}
					txn.Commit()
					mu.Lock()
					if seen[ip] || !a.Contains(ip) {
						t.Errorf("%s given out twice or outside %s", ip, cidr)
					}
					seen[ip] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		// All but the first, which is taken by name.
		if len(seen) != a.ips.size-1 {
			t.Errorf("%s: %d of %d given out", cidr, len(seen), a.ips.size)
		}
		if _, err := a.Begin(t.Context(), false).IP(a.ipAt(0)); err != nil {
			t.Errorf("%s: first address: %v", cidr, err)
		}
	}
}

func TestLoad(t *testing.T) {
	a, err := New(Config{CIDR: "10.0.0.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := a.Load(t.Context(), func(context.Context) ([]corev1.Service, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	stored := []corev1.Service{
		{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"}, Ports: []corev1.ServicePort{{NodePort: 30001}}, HealthCheckNodePort: 30002}},
		{Spec: corev1.ServiceSpec{ClusterIPs: []string{"None"}}},
		{Spec: corev1.ServiceSpec{ClusterIPs: []string{"192.168.0.1"}}},
	}
	if err := a.Load(t.Context(), func(context.Context) ([]corev1.Service, error) { return stored, nil }); err != nil {
		t.Fatal(err)
	}
	txn := a.Begin(t.Context(), false)
	if _, err := txn.IP("10.0.0.9"); !errors.Is(err, ErrIPAllocated) {
		t.Errorf("got %v", err)
	}
	for _, p := range []int32{30001, 30002} {
		if _, err := txn.Port(p); !errors.Is(err, ErrPortAllocated) {
			t.Errorf("port %d: got %v", p, err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	for _, ip := range []string{"10.0.0.0", "10.0.0.1", "10.0.255.255", "::1", "", "10.1.0.0"} {
		f.Add(ip)
	}
	a, err := New(Config{CIDR: "10.0.0.0/16"})
	if err != nil {
		f.Fatal(err)
	}
	six, err := New(Config{CIDR: "fd00::/64"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, ip string) {
		for _, a := range []*Allocator{a, six} {
			n, ok := a.ipIndex(ip)
			if !ok {
				continue
			}
			if m, ok := a.ipIndex(a.ipAt(n)); !ok || m != n {
				t.Errorf("%q is %d, which is %q, which is %d", ip, n, a.ipAt(n), m)
			}
		}
	})
}
