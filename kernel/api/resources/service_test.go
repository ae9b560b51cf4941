package resources

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
	"pintle.dev/pintle/kernel/api/resources/ipalloc/ipalloctest"
)

func newAllocation(t *testing.T, stored ...corev1.Service) *serviceAllocation {
	t.Helper()
	alloc, err := ipalloc.New(ipalloc.Config{CIDR: "10.96.0.0/24", NodePorts: "30000-30099", Addresses: ipalloctest.New("10.96.0.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	return &serviceAllocation{alloc: alloc, list: func(context.Context) ([]corev1.Service, error) { return stored, nil }}
}

func service(change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if change != nil {
		change(&s.Spec)
	}
	setServiceDefaults(s)
	return s
}

// create runs the hooks and the strategy as the store does.
func (a *serviceAllocation) create(t *testing.T, s *corev1.Service, dryRun ...string) error {
	t.Helper()
	done, err := a.beginCreate(t.Context(), s, &metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return err
	}
	errs := validateServiceCreate(s)
	done(t.Context(), len(errs) == 0)
	return errs.ToAggregate()
}

// SVC-3, SVC-6, SVC-8, T-19: addresses and node ports, and which are refused.
func TestServiceCreate(t *testing.T) {
	a := newAllocation(t, corev1.Service{Spec: corev1.ServiceSpec{Type: "NodePort", ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, Ports: []corev1.ServicePort{{NodePort: 30007}}}})
	for _, tc := range []struct {
		name   string
		change func(*corev1.ServiceSpec)
		want   string // of the error
		check  func(*corev1.Service) bool
	}{
		{"any address", nil, "", func(s *corev1.Service) bool {
			return strings.HasPrefix(s.Spec.ClusterIP, "10.96.0.") && s.Spec.ClusterIPs[0] == s.Spec.ClusterIP && s.Spec.IPFamilies[0] == corev1.IPv4Protocol
		}},
		{"first by name", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.1" }, "", func(s *corev1.Service) bool { return s.Spec.ClusterIPs[0] == "10.96.0.1" }},
		{"taken", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.7" }, `spec.clusterIPs: Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: provided IP is already allocated`, nil},
		{"outside", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.1.0.7" }, "failed to allocate IP 10.1.0.7: the provided network does not match the current range", nil},
		{"headless", func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }, "", func(s *corev1.Service) bool { return s.Spec.ClusterIPs[0] == "None" }},
		{"external name", func(s *corev1.ServiceSpec) { s.Type, s.ExternalName, s.Ports = "ExternalName", "a.example", nil }, "", func(s *corev1.Service) bool { return s.Spec.ClusterIP == "" }},
		{"node port", func(s *corev1.ServiceSpec) { s.Type = "NodePort" }, "", func(s *corev1.Service) bool { return s.Spec.Ports[0].NodePort >= 30000 }},
		{"shared node port", func(s *corev1.ServiceSpec) {
			s.Type = "NodePort"
			s.Ports = []corev1.ServicePort{{Name: "t", Port: 53}, {Name: "u", Port: 53, Protocol: "UDP"}}
		}, "", func(s *corev1.Service) bool { return s.Spec.Ports[0].NodePort == s.Spec.Ports[1].NodePort }},
		{"port taken", func(s *corev1.ServiceSpec) { s.Type = "NodePort"; s.Ports[0].NodePort = 30007 }, "spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated", nil},
		{"port outside", func(s *corev1.ServiceSpec) { s.Type = "NodePort"; s.Ports[0].NodePort = 99 }, "provided port is not in the valid range. The range of valid ports is 30000-30099", nil},
		{"dual stack", func(s *corev1.ServiceSpec) { p := corev1.IPFamilyPolicyRequireDualStack; s.IPFamilyPolicy = &p }, "this cluster is not configured for dual-stack services", nil},
		// SVC-2: several ports have names each.
		{"no name", func(s *corev1.ServiceSpec) { s.Ports = []corev1.ServicePort{{Name: "123-abc", Port: 80}, {Port: 81}} }, "spec.ports[1].name: Required value", nil},
		{"bad name", func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{{Name: "123_abc", Port: 80}, {Name: "-web", Port: 81}}
		}, `spec.ports[1].name: Invalid value: "-web"`, nil},
		{"no ports", func(s *corev1.ServiceSpec) { s.Ports = nil }, "spec.ports: Required value", nil},
		{"affinity", func(s *corev1.ServiceSpec) { s.SessionAffinity = "ClientIP" }, "", func(s *corev1.Service) bool {
			return *s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == 10800
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := service(tc.change)
			err := a.create(t, s)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			case tc.check != nil && !tc.check(s):
				t.Errorf("spec %+v", s.Spec)
			}
		})
	}
}

func TestServiceDryRunAndRelease(t *testing.T) {
	a := newAllocation(t)
	want := func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.9" }
	if err := a.create(t, service(want), "All"); err != nil {
		t.Fatal(err)
	}
	s := service(want)
	if err := a.create(t, s); err != nil {
		t.Fatalf("the dry run held the address: %v", err)
	}
	if err := a.create(t, service(want)); err == nil {
		t.Fatal("an address was given out twice")
	}
	a.alloc.Release(s)
	if err := a.create(t, service(want)); err != nil {
		t.Fatalf("not free after delete: %v", err)
	}
}

func TestServiceUpdate(t *testing.T) {
	a := newAllocation(t)
	old := service(func(s *corev1.ServiceSpec) { s.Type = "NodePort" })
	if err := a.create(t, old); err != nil {
		t.Fatal(err)
	}
	old.ResourceVersion = "1"
	update := func(old *corev1.Service, change func(*corev1.Service)) (*corev1.Service, error) {
		s := old.DeepCopy()
		change(s)
		done, err := a.beginUpdate(t.Context(), s, old, &metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		dropServiceTypeFields(s, old)
		errs := validateServiceUpdate(s, old)
		done(t.Context(), len(errs) == 0)
		return s, errs.ToAggregate()
	}
	// The first manifest again keeps what was allocated.
	s, err := update(old, func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.Ports[0].NodePort = "", nil, 0 })
	if err != nil || s.Spec.ClusterIP != old.Spec.ClusterIP || s.Spec.Ports[0].NodePort != old.Spec.Ports[0].NodePort {
		t.Fatalf("applied again: %v, %+v", err, s)
	}
	if _, err := update(old, func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.200" }); err == nil || !strings.Contains(err.Error(), "may not change once set") {
		t.Errorf("address changed: %v", err)
	}
	port := old.Spec.Ports[0].NodePort
	plain, err := update(old, func(s *corev1.Service) { s.Spec.Type = "ClusterIP"; s.Spec.ExternalTrafficPolicy = "" })
	if err != nil || plain.Spec.Ports[0].NodePort != 0 {
		t.Fatalf("to ClusterIP: %v, %+v", err, plain)
	}
	if err := a.create(t, service(func(s *corev1.ServiceSpec) { s.Type = "NodePort"; s.Ports[0].NodePort = port })); err != nil {
		t.Errorf("the port was not given up: %v", err)
	}
	external, err := update(plain, func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = "ExternalName", "a.example" })
	if err != nil || external.Spec.ClusterIP != "" {
		t.Fatalf("to ExternalName: %v, %+v", err, external)
	}
	if err := a.create(t, service(func(s *corev1.ServiceSpec) { s.ClusterIP = plain.Spec.ClusterIP })); err != nil {
		t.Errorf("the address was not given up: %v", err)
	}
}

// TestServiceStatusUpdateHoldsAddress: a status request whose spec says
// ExternalName must not give up what the stored spec holds.
func TestServiceStatusUpdateHoldsAddress(t *testing.T) {
	a := newAllocation(t)
	old := service(func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.9" })
	if err := a.create(t, old); err != nil {
		t.Fatal(err)
	}
	s := old.DeepCopy()
	s.Spec = corev1.ServiceSpec{Type: "ExternalName", ExternalName: "a.example"}
	ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{Subresource: "status"})
	done, err := a.beginUpdate(ctx, s, old, &metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done(ctx, true)
	if err := a.create(t, service(func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.9" })); err == nil {
		t.Error("the address was given out twice")
	}
}

// What an update takes and gives up counts when it was written, and of several
// tries only the last.
func TestServiceOutcome(t *testing.T) {
	a := newAllocation(t)
	old := service(nil)
	if err := a.create(t, old); err != nil {
		t.Fatal(err)
	}
	free := func(ip string) bool {
		txn := a.alloc.Begin(t.Context(), ipalloc.NameOf(old), true)
		_, err := txn.IP(corev1.IPv4Protocol, ip)
		return err == nil
	}
	for _, written := range []bool{false, true} {
		ctx, done := WithOutcome(t.Context())
		var tried []string
		for range 2 {
			s := old.DeepCopy()
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.example"}
			finish, err := a.beginUpdate(ctx, s, old, &metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			finish(ctx, true)
			other := service(nil)
			if finish, err = a.beginCreate(ctx, other, &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			finish(ctx, true)
			tried = append(tried, other.Spec.ClusterIP)
		}
		if free(old.Spec.ClusterIP) {
			t.Error("an address was given up before the update was written")
		}
		done(written)
		if !free(tried[0]) || free(tried[1]) != !written {
			t.Errorf("written %v: %v", written, tried)
		}
	}
}

// TestServiceFamilies: ARC-10: in a cluster of both families policies give, add and take addresses as kube-apiserver does.
func TestServiceFamilies(t *testing.T) {
	const single, prefer, require = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	alloc, err := ipalloc.New(ipalloc.Config{CIDR: "10.96.0.0/24,fd00:96::/112", Addresses: ipalloctest.New("10.96.0.0/24", "fd00:96::/112")})
	if err != nil {
		t.Fatal(err)
	}
	a := &serviceAllocation{alloc: alloc, list: func(context.Context) ([]corev1.Service, error) { return nil, nil }}
	families := func(s *corev1.Service) (out string) {
		for i, ip := range s.Spec.ClusterIPs {
			if ip == corev1.ClusterIPNone {
				out += "None"
				continue
			}
			if familyOf(ip) != s.Spec.IPFamilies[i] {
				t.Errorf("addresses %v of families %v", s.Spec.ClusterIPs, s.Spec.IPFamilies)
			}
			out += string(familyOf(ip))[2:]
		}
		if s.Spec.ClusterIP != s.Spec.ClusterIPs[0] {
			t.Errorf("clusterIP %s, clusterIPs %v", s.Spec.ClusterIP, s.Spec.ClusterIPs)
		}
		return out + " " + string(*s.Spec.IPFamilyPolicy)
	}
	with := func(policy corev1.IPFamilyPolicy, change func(*corev1.ServiceSpec)) *corev1.Service {
		return service(func(s *corev1.ServiceSpec) {
			if s.IPFamilyPolicy = nil; policy != "" {
				s.IPFamilyPolicy = &policy
			}
			if change != nil {
				change(s)
			}
		})
	}
	ipv6First := func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }
	for name, tt := range map[string]struct {
		service *corev1.Service
		want    string
		refused string
	}{
		"nothing said":       {with("", nil), "v4 SingleStack", ""},
		"IPv6":               {with("", ipv6First), "v6 SingleStack", ""},
		"prefer":             {with(prefer, nil), "v4v6 PreferDualStack", ""},
		"require":            {with(require, nil), "v4v6 RequireDualStack", ""},
		"require, IPv6":      {with(require, ipv6First), "v6v4 RequireDualStack", ""},
		"an address of IPv6": {with("", func(s *corev1.ServiceSpec) { s.ClusterIP = "fd00:96::9" }), "v6 SingleStack", ""},
		"both by name": {with(require, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "fd00:96::8", []string{"fd00:96::8", "10.96.0.8"}
		}), "v6v4 RequireDualStack", ""},
		"one by name": {with(require, func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.7" }), "v4v6 RequireDualStack", ""},
		"headless":    {with(prefer, func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }), "None PreferDualStack", ""},
		"two and single": {with(single, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "10.96.0.6", []string{"10.96.0.6", "fd00:96::6"}
		}), "", "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"},
		"two of a family": {with(require, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "10.96.0.5", []string{"10.96.0.5", "10.96.0.4"}
		}), "", "may specify no more than one IP for each IP family"},
		"outside": {with(require, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "10.96.0.3", []string{"10.96.0.3", "fd00:97::3"}
		}), "", "failed to allocate IP fd00:97::3: the provided network does not match the current range"},
	} {
		err := a.create(t, tt.service)
		switch {
		case tt.refused != "":
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v, want %q", name, err, tt.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case families(tt.service) != tt.want:
			t.Errorf("%s: %s, want %s", name, families(tt.service), tt.want)
		}
	}
	// What a refused one had taken is free.
	if err := a.create(t, with(require, func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.3" })); err != nil {
		t.Error(err)
	}
	update := func(old *corev1.Service, change func(*corev1.ServiceSpec)) (*corev1.Service, error) {
		s := old.DeepCopy()
		s.ResourceVersion = "1"
		change(&s.Spec)
		done, err := a.beginUpdate(t.Context(), s, old, &metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		errs := validateServiceUpdate(s, old)
		done(t.Context(), len(errs) == 0)
		return s, errs.ToAggregate()
	}
	policy := func(p corev1.IPFamilyPolicy) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = &p }
	}
	one := with("", nil)
	if err := a.create(t, one); err != nil {
		t.Fatal(err)
	}
	first := one.Spec.ClusterIP
	both, err := update(one, policy(require))
	if err != nil || families(both) != "v4v6 RequireDualStack" || both.Spec.ClusterIP != first || len(one.Spec.ClusterIPs) != 1 {
		t.Fatalf("up: %v, %+v", err, both)
	}
	if _, err := update(both, func(s *corev1.ServiceSpec) { s.ClusterIPs = s.ClusterIPs[:1] }); err == nil || !strings.Contains(err.Error(), "must be 'SingleStack' to release the secondary cluster IP") {
		t.Errorf("the second taken away: %v", err)
	}
	if _, err := update(both, func(s *corev1.ServiceSpec) { s.ClusterIPs[1] = "fd00:96::77" }); err == nil || !strings.Contains(err.Error(), "may not change once set") {
		t.Errorf("the second changed: %v", err)
	}
	second := both.Spec.ClusterIPs[1]
	again, err := update(both, policy(single))
	if err != nil || families(again) != "v4 SingleStack" || again.Spec.ClusterIP != first {
		t.Fatalf("down: %v, %+v", err, again)
	}
	if err := a.create(t, with("", func(s *corev1.ServiceSpec) { s.ClusterIP = second })); err != nil {
		t.Errorf("the second address was not given up: %v", err)
	}
	// Neither up nor down by itself.
	same, err := update(both, policy(prefer))
	if err != nil || families(same) != "v4v6 PreferDualStack" {
		t.Errorf("prefer: %v, %+v", err, same)
	}
	// The second one by name.
	named, err := update(again, func(s *corev1.ServiceSpec) {
		policy(prefer)(s)
		s.ClusterIPs = append(s.ClusterIPs, "fd00:96::55")
	})
	if err != nil || named.Spec.ClusterIPs[1] != "fd00:96::55" {
		t.Errorf("the second by name: %v, %+v", err, named)
	}
}
