package ipalloc

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/api/resources/ipalloc/ipalloctest"
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
		a, err := New(Config{CIDR: cidr, Addresses: ipalloctest.New(cidr)})
		if err != nil {
			t.Fatal(err)
		}
		prefix := netip.MustParsePrefix(cidr)
		seen := map[string]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					txn := a.Begin(t.Context(), web, false)
					ip, err := txn.IP(a.families[0], "")
					if err != nil {
						if !errors.Is(err, ErrFull) {
							t.Error(err)
						}
						return
					}
					txn.Commit()
					mu.Lock()
					if seen[ip] || !Holds(prefix, netip.MustParseAddr(ip)) {
						t.Errorf("%s given out twice or outside %s", ip, cidr)
					}
					seen[ip] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		// All but the first, which is taken by name.
		if size := newRange(prefix).band.size; len(seen) != size-1 {
			t.Errorf("%s: %d of %d given out", cidr, len(seen), size)
		}
		if _, err := a.Begin(t.Context(), web, false).IP(a.families[0], a.first[a.families[0]].String()); err != nil {
			t.Errorf("%s: first address: %v", cidr, err)
		}
	}
}

// TestRanges: addresses come from all ranges of the family that are ready; those
// of a range that went cannot be had, and two ranges may overlap.
func TestRanges(t *testing.T) {
	records := ipalloctest.New("10.0.0.0/29")
	a, err := New(Config{CIDR: "10.0.0.0/29", Addresses: records})
	if err != nil {
		t.Fatal(err)
	}
	draw := func() map[string]bool {
		out := map[string]bool{}
		for {
			ip, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, "")
			if errors.Is(err, ErrFull) {
				return out
			}
			if err != nil || out[ip] {
				t.Fatalf("%s, %v", ip, err)
			}
			out[ip] = true
		}
	}
	if got := draw(); len(got) != 5 {
		t.Errorf("the range itself: %v", got)
	}
	if _, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, "10.9.0.1"); !errors.Is(err, ErrIPOutside) {
		t.Errorf("of no range: %v", err)
	}
	// A second range, one within it, one of the other family, ones without any address.
	records.SetRanges("10.0.0.0/29", "10.9.0.0/28", "10.9.0.8/29", "fd00::/120", "10.8.0.0/32", "10.8.0.0/31", "10.7.0.0/30")
	for ip, want := range map[string]error{
		"10.9.0.1": nil, "10.9.0.0": ErrIPOutside, "10.9.0.15": ErrIPOutside, "10.9.0.8": nil, "fd00::1": ErrIPOutside,
		"10.8.0.0": ErrIPOutside, "10.8.0.1": ErrIPOutside, "10.7.0.3": ErrIPOutside, "10.7.0.1": nil, "nonsense": ErrIPOutside, "": nil,
	} {
		if _, err := a.Begin(t.Context(), web, true).IP(corev1.IPv4Protocol, ip); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", ip, err, want)
		}
	}
	if got := draw(); len(got) != 14+2 {
		t.Errorf("the ranges that came: %v", got)
	}
	given, _ := parseIP("10.0.0.3")
	a.giveIPs(web, []netip.Addr{given})
	records.SetRanges("10.9.0.0/28")
	if _, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, "10.0.0.3"); !errors.Is(err, ErrIPOutside) {
		t.Errorf("of a range that went: %v", err)
	}
	if got := draw(); len(got) != 0 {
		t.Errorf("of a range that went: %v", got)
	}
	records.SetRanges("10.0.0.0/29")
	if got := draw(); len(got) != 1 || !got["10.0.0.3"] {
		t.Errorf("when it is back: %v", got)
	}
}

// TestRecordsDecide: memory is wrong as soon as somebody else writes records, and
// no address is given out twice for that. A record of another service stays.
func TestRecordsDecide(t *testing.T) {
	records := ipalloctest.New("10.0.0.0/29")
	a, err := New(Config{CIDR: "10.0.0.0/29", Addresses: records})
	if err != nil {
		t.Fatal(err)
	}
	other := types.NamespacedName{Namespace: "b", Name: "other"}
	byHand := netip.MustParseAddr("10.0.0.4")
	if _, err := records.Take(t.Context(), byHand, other); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, "10.0.0.4"); !errors.Is(err, ErrIPAllocated) {
		t.Errorf("by name: %v", err)
	}
	for range 4 {
		if ip, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, ""); err != nil || ip == "10.0.0.4" {
			t.Errorf("%s, %v", ip, err)
		}
	}
	twin := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.4"}}}
	a.Release(&twin)
	if records.Of("10.0.0.4") != other {
		t.Error("the record of another service went")
	}
	if err := records.Give(t.Context(), byHand, other); err != nil {
		t.Fatal(err)
	}
	if ip, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, ""); err != nil || ip != "10.0.0.4" {
		t.Errorf("what became free elsewhere: %s, %v", ip, err)
	}
	if _, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, ""); !errors.Is(err, ErrFull) {
		t.Errorf("full: %v", err)
	}
	broken := errors.New("broken")
	records.Fail(broken)
	for _, ip := range []string{"", "10.0.0.5"} {
		if _, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, ip); !errors.Is(err, broken) {
			t.Errorf("%q: %v", ip, err)
		}
	}
}

func TestLoad(t *testing.T) {
	records := ipalloctest.New("10.0.0.0/24")
	a, err := New(Config{CIDR: "10.0.0.0/24", Addresses: records})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := a.Load(t.Context(), func(context.Context) ([]corev1.Service, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	stored := []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "old"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"}, Ports: []corev1.ServicePort{{NodePort: 30001}}, HealthCheckNodePort: 30002}},
		{Spec: corev1.ServiceSpec{ClusterIPs: []string{"None"}}},
		{Spec: corev1.ServiceSpec{ClusterIPs: []string{"192.168.0.1"}}},
	}
	if err := a.Load(t.Context(), func(context.Context) ([]corev1.Service, error) { return stored, nil }); err != nil {
		t.Fatal(err)
	}
	// The service is older than the records.
	if taken, err := records.Taken(t.Context()); err != nil || len(taken) != 1 || records.Of("10.0.0.9").Name != "old" {
		t.Errorf("records: %v, %v", taken, err)
	}
	txn := a.Begin(t.Context(), web, false)
	if _, err := txn.IP(corev1.IPv4Protocol, "10.0.0.9"); !errors.Is(err, ErrIPAllocated) {
		t.Errorf("got %v", err)
	}
	for _, p := range []int32{30001, 30002} {
		if _, err := txn.Port(p); !errors.Is(err, ErrPortAllocated) {
			t.Errorf("port %d: got %v", p, err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	for _, ip := range []string{"10.0.0.0", "10.0.0.1", "10.0.255.255", "::1", "", "10.1.0.0", "255.255.255.254", "255.255.255.255", "0.0.0.1", "::ffff:10.0.0.3", "fe80::1%x", "fd00::1"} {
		f.Add(ip)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ip, ok := parseIP(s)
		if !ok {
			return
		}
		for _, cidr := range []string{"10.0.0.0/16", "fd00::/64", "10.0.0.0/8", "0.0.0.0/0", "::/0", "255.255.255.248/29"} {
			r := newRange(netip.MustParsePrefix(cidr))
			n, ok := r.index(ip)
			if !ok {
				continue
			}
			if m, ok := r.index(r.at(n)); !ok || m != n || r.at(n) != ip || !Holds(r.prefix, ip) {
				t.Errorf("%q is %d of %s, which is %q, which is %d", s, n, cidr, r.at(n), m)
			}
		}
	})
}

// TestFamilies: addresses are of the family that is asked for, and the first of each range is given by name only.
func TestFamilies(t *testing.T) {
	records := ipalloctest.New("10.0.0.0/29", "fd00::/125")
	a, err := New(Config{CIDR: "fd00::/125,10.0.0.0/29", Addresses: records})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Families(); !slices.Equal(got, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}) {
		t.Errorf("families %v", got)
	}
	for family, want := range map[corev1.IPFamily]int{corev1.IPv4Protocol: 5, corev1.IPv6Protocol: 6} {
		seen := map[string]bool{}
		for {
			ip, err := a.Begin(t.Context(), web, false).IP(family, "")
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil || familyOf(netip.MustParseAddr(ip)) != family || seen[ip] {
				t.Fatalf("%s: %s, %v", family, ip, err)
			}
			seen[ip] = true
		}
		first := a.first[family].String()
		if len(seen) != want || seen[first] {
			t.Errorf("%s: %v, want %d without %s", family, seen, want, first)
		}
		if _, err := a.Begin(t.Context(), web, false).IP(family, first); err != nil {
			t.Errorf("%s by name: %v", first, err)
		}
	}
	if _, err := a.Begin(t.Context(), web, false).IP(corev1.IPv4Protocol, "fd00::1"); !errors.Is(err, ErrIPOutside) {
		t.Errorf("of the other family: %v", err)
	}
	for _, cidr := range []string{"10.0.0.0/24,10.1.0.0/24", "10.0.0.0/24,fd00::1/120", "10.0.0.0/24,fd00::/127", "10.0.0.0/24,fd00::/120,fd01::/120"} {
		if _, err := New(Config{CIDR: cidr}); err == nil {
			t.Errorf("%s: accepted", cidr)
		}
	}
}
