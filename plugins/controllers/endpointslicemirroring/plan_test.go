package endpointslicemirroring

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func addresses(ips ...string) []corev1.EndpointAddress {
	var out []corev1.EndpointAddress
	for _, ip := range ips {
		out = append(out, corev1.EndpointAddress{IP: ip})
	}
	return out
}

func ports(numbers ...int32) []corev1.EndpointPort {
	var out []corev1.EndpointPort
	for _, n := range numbers {
		out = append(out, corev1.EndpointPort{Name: fmt.Sprintf("p%d", n), Port: n, Protocol: corev1.ProtocolTCP})
	}
	return out
}

func byHand(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "e1"}, Subsets: subsets}
}

func words(list []wantedSlice) string {
	var out []string
	for _, w := range list {
		var numbers, eps []string
		for _, p := range w.ports {
			numbers = append(numbers, fmt.Sprint(*p.Port))
		}
		for _, e := range w.endpoints {
			state := ""
			if !*e.Conditions.Ready {
				state = "!"
			}
			eps = append(eps, state+e.Addresses[0])
		}
		slices.Sort(eps)
		out = append(out, fmt.Sprintf("%s %s:%s", w.key.family, strings.Join(eps, ","), strings.Join(numbers, ",")))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// The slices of Endpoints: one for each address family and set of ports.
func TestWanted(t *testing.T) {
	many := make([]string, maxPerSubset+7)
	for i := range many {
		many[i] = fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)
	}
	for name, tc := range map[string]struct {
		subsets []corev1.EndpointSubset
		want    string
		lost    loss
	}{
		"none":      {nil, "", loss{}},
		"no ports":  {[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1")}}, "IPv4 10.0.0.1:", loss{}},
		"not ready": {[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), NotReadyAddresses: addresses("10.0.0.2"), Ports: ports(80)}}, "IPv4 !10.0.0.2,10.0.0.1:80", loss{}},
		"two families": {[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1", "fd00::1"), Ports: ports(80)}},
			"IPv4 10.0.0.1:80; IPv6 fd00::1:80", loss{}},
		"ports apart": {[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), Ports: ports(80)}, {Addresses: addresses("10.0.0.2"), Ports: ports(81)}},
			"IPv4 10.0.0.1:80; IPv4 10.0.0.2:81", loss{}},
		"one port set in two subsets": {[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), Ports: ports(80)}, {Addresses: addresses("10.0.0.2"), Ports: ports(80)}},
			"IPv4 10.0.0.1,10.0.0.2:80", loss{}},
		"ready and not ready is not ready": {[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), Ports: ports(80)}, {NotReadyAddresses: addresses("10.0.0.1"), Ports: ports(80)}},
			"IPv4 !10.0.0.1:80", loss{}},
		"leading zeros": {[]corev1.EndpointSubset{{Addresses: addresses("10.000.0.01"), Ports: ports(80)}}, "IPv4 10.0.0.1:80", loss{}},
		"no address":    {[]corev1.EndpointSubset{{Addresses: addresses("db.example", "10.0.0.1"), Ports: ports(80)}}, "IPv4 10.0.0.1:80", loss{invalid: 1}},
		"too many":      {[]corev1.EndpointSubset{{Addresses: addresses(many...), Ports: ports(80)}}, "*", loss{overflow: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			got, lost := wanted(byHand(tc.subsets...))
			if lost != tc.lost {
				t.Errorf("lost %+v, want %+v", lost, tc.lost)
			}
			if tc.want == "*" {
				if len(got) != 1 || len(got[0].endpoints) != maxPerSubset {
					t.Errorf("%d slices", len(got))
				}
			} else if words(got) != tc.want {
				t.Errorf("got %q, want %q", words(got), tc.want)
			}
		})
	}
}

// What is written: nothing where all is right; a slice that is not wanted any
// more is used for one that is; a family never changes.
func TestPlan(t *testing.T) {
	first := byHand(corev1.EndpointSubset{Addresses: addresses("10.0.0.1", "fd00::1"), Ports: ports(80)})
	first.Labels = map[string]string{"app": "db", discoveryv1.LabelManagedBy: "somebody"}
	first.Annotations = map[string]string{"note": "x", corev1.LastAppliedConfigAnnotation: "{}", corev1.EndpointsLastChangeTriggerTime: "now"}
	want, _ := wanted(first)
	p := planFor(first, want, nil)
	if len(p.create) != 2 || len(p.update)+len(p.remove)+len(p.right) != 0 {
		t.Fatalf("at first %+v", p)
	}
	for i, s := range p.create {
		if s.GenerateName != "db-" || s.Labels[discoveryv1.LabelServiceName] != "db" || s.Labels[discoveryv1.LabelManagedBy] != Name || s.Labels["app"] != "db" ||
			len(s.Annotations) != 1 || s.Annotations["note"] != "x" || !metav1.IsControlledBy(s, first) || s.OwnerReferences[0].Kind != "Endpoints" {
			t.Errorf("slice %+v", s.ObjectMeta)
		}
		s.Name = fmt.Sprintf("db-%d", i)
	}
	have := p.create
	if p := planFor(first, want, have); len(p.right) != 2 || len(p.create)+len(p.update)+len(p.remove) != 0 {
		t.Errorf("without a change %+v", p)
	}
	other := first.DeepCopy()
	other.Labels["app"] = "other"
	for _, s := range planFor(other, want, have).update {
		if s.GenerateName != "" || s.Name == "" || s.Labels["app"] != "other" {
			t.Errorf("the update is %+v", s.ObjectMeta)
		}
	}
	for name, tc := range map[string]struct {
		change                 func(*corev1.Endpoints)
		create, update, remove int
	}{
		"label":       {func(e *corev1.Endpoints) { e.Labels["app"] = "other" }, 0, 2, 0},
		"annotation":  {func(e *corev1.Endpoints) { e.Annotations = nil }, 0, 2, 0},
		"made anew":   {func(e *corev1.Endpoints) { e.UID = types.UID("e2") }, 0, 2, 0},
		"address":     {func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "10.0.0.2" }, 0, 1, 0},
		"node":        {func(e *corev1.Endpoints) { n := "n1"; e.Subsets[0].Addresses[0].NodeName = &n }, 0, 1, 0},
		"port":        {func(e *corev1.Endpoints) { e.Subsets[0].Ports = ports(81) }, 0, 2, 0},
		"family gone": {func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("10.0.0.1") }, 0, 0, 1},
		"another port": {func(e *corev1.Endpoints) {
			e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: addresses("10.0.0.9"), Ports: ports(99)})
		}, 1, 0, 0},
		"nothing at all": {func(e *corev1.Endpoints) { e.Subsets = nil }, 0, 0, 2},
	} {
		e := first.DeepCopy()
		tc.change(e)
		want, _ := wanted(e)
		p := planFor(e, want, have)
		if len(p.create) != tc.create || len(p.update) != tc.update || len(p.remove) != tc.remove {
			t.Errorf("%s: creates %d, updates %d, removes %d; want %d, %d, %d", name, len(p.create), len(p.update), len(p.remove), tc.create, tc.update, tc.remove)
		}
		for _, s := range p.update {
			if old := slices.IndexFunc(have, func(o *discoveryv1.EndpointSlice) bool { return o.Name == s.Name }); old < 0 || have[old].AddressType != s.AddressType {
				t.Errorf("%s: %s changes its family", name, s.Name)
			}
		}
	}
}
