package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pintle.dev/pintle/plugins/controllers/subsets"
)

func pod(name, ip string, ready bool, change ...func(*corev1.Pod)) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{"app": "web"}, ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Labels: map[string]string{"tier": "front"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.7", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// words writes subsets as "ready | not ready : ports" lines.
func words(packed []corev1.EndpointSubset) string {
	var lines []string
	list := func(addresses []corev1.EndpointAddress) string {
		var out []string
		for _, a := range addresses {
			w := a.IP
			if a.Hostname != "" {
				w += "=" + a.Hostname
			}
			out = append(out, w)
		}
		return strings.Join(out, ",")
	}
	for _, s := range packed {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s/%d", p.Name, p.Port))
		}
		lines = append(lines, list(s.Addresses)+"|"+list(s.NotReadyAddresses)+":"+strings.Join(ports, ","))
	}
	return strings.Join(lines, " ")
}

// EPC-9, EPC-10: what the subsets of a service are.
func TestSubsets(t *testing.T) {
	headless := func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }
	for name, tc := range map[string]struct {
		service *corev1.Service
		pods    []*corev1.Pod
		want    string
	}{
		"none":              {service(), nil, ""},
		"ready and not":     {service(), []*corev1.Pod{pod("b", "10.1.0.2", true), pod("a", "10.1.0.1", true), pod("c", "10.1.0.3", false)}, "10.1.0.1,10.1.0.2|10.1.0.3:http/8080"},
		"publish not ready": {service(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }), []*corev1.Pod{pod("a", "10.1.0.1", false)}, "10.1.0.1|:http/8080"},
		"ended and leaving": {service(), []*corev1.Pod{
			pod("a", "10.1.0.1", true, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			pod("b", "10.1.0.2", true, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			pod("c", "10.1.0.3", true, func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }),
			pod("d", "", true, func(p *corev1.Pod) { p.Status.PodIPs = nil }),
		}, ""},
		"two ports, one subset": {service(func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(5353)})
		}), []*corev1.Pod{pod("a", "10.1.0.1", true)}, "10.1.0.1|:dns/5353,http/8080"},
		"port numbers differ": {service(), []*corev1.Pod{
			pod("a", "10.1.0.1", true),
			pod("b", "10.1.0.2", true, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 }),
			pod("c", "10.1.0.3", true, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }),
		}, "10.1.0.1|:http/8080 10.1.0.2|:http/9090"},
		"headless without ports": {service(headless, func(s *corev1.Service) { s.Spec.Ports = nil }), []*corev1.Pod{pod("a", "10.1.0.1", true)}, "10.1.0.1|:"},
		"hostname": {service(headless, func(s *corev1.Service) { s.Name = "sub" }), []*corev1.Pod{
			pod("a", "10.1.0.1", true, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-0", "sub" }),
			pod("b", "10.1.0.2", true, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-1", "other" }),
		}, "10.1.0.1=db-0,10.1.0.2|:http/8080"},
		"second family": {service(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }), []*corev1.Pod{
			pod("a", "10.1.0.1", true, func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::1"}) }),
			pod("b", "10.1.0.2", true),
		}, "fd00::1|:http/8080"},
	} {
		t.Run(name, func(t *testing.T) {
			got := subsetsOf(tc.service, tc.pods)
			if words(got) != tc.want {
				t.Errorf("got %q, want %q", words(got), tc.want)
			}
			slices.Reverse(tc.pods)
			if again := subsetsOf(tc.service, tc.pods); !equalSubsets(again, got) || words(again) != words(got) {
				t.Errorf("in another order %q", words(again))
			}
			if !equalSubsets(subsets.Repack(got), got) {
				t.Errorf("packed again %q", words(subsets.Repack(got)))
			}
		})
	}
}

// Objects keep to 1,000 addresses, ready ones first, by share of the subset.
func TestTruncate(t *testing.T) {
	make := func(n int) []corev1.EndpointAddress {
		return slices.Repeat([]corev1.EndpointAddress{{IP: "10.0.0.1"}}, n)
	}
	for name, tc := range map[string]struct {
		sizes [][2]int // ready, not ready
		cut   bool
		want  [][2]int
	}{
		"within":          {[][2]int{{600, 100}, {300, 0}}, false, [][2]int{{600, 100}, {300, 0}}},
		"not ready goes":  {[][2]int{{900, 300}}, true, [][2]int{{900, 100}}},
		"not ready share": {[][2]int{{400, 200}, {400, 600}}, true, [][2]int{{400, 50}, {400, 150}}},
		"ready share":     {[][2]int{{1500, 10}, {500, 10}}, true, [][2]int{{750, 0}, {250, 0}}},
		"rounding":        {[][2]int{{1001, 0}, {1001, 0}, {1001, 0}}, true, [][2]int{{334, 0}, {334, 0}, {332, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &corev1.Endpoints{}
			for _, s := range tc.sizes {
				e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: make(s[0]), NotReadyAddresses: make(s[1])})
			}
			if got := truncate(e); got != tc.cut {
				t.Errorf("cut %t", got)
			}
			for i, s := range e.Subsets {
				if got := [2]int{len(s.Addresses), len(s.NotReadyAddresses)}; got != tc.want[i] {
					t.Errorf("subset %d has %v, want %v", i, got, tc.want[i])
				}
			}
		})
	}
}
