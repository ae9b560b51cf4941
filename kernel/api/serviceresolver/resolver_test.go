package serviceresolver

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

type objects struct {
	services map[string]corev1.ServiceSpec
	slices   map[string][]*discoveryv1.EndpointSlice
	err      error // of the slices
}

func (o objects) Service(namespace, name string) (*corev1.Service, error) {
	spec, ok := o.services[namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("services"), name)
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}, nil
}

func (o objects) EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	return o.slices[namespace+"/"+service], o.err
}

func slice(port string, number int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}}
}

func endpoint(address string, ready bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}
}

func TestResolveEndpoint(t *testing.T) {
	https := []corev1.ServicePort{{Name: "https", Port: 443}}
	all := objects{
		services: map[string]corev1.ServiceSpec{
			"a/usual":    {Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", Ports: https},
			"a/headless": {Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Ports: https},
			"a/external": {Type: corev1.ServiceTypeExternalName, ExternalName: "hooks.example.org"},
			"a/waiting":  {Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.8", Ports: https},
			"a/bare":     {Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9", Ports: https},
		},
		slices: map[string][]*discoveryv1.EndpointSlice{
			"a/usual":    {slice("metrics", 9090, endpoint("10.1.0.9", true)), slice("https", 8443, endpoint("10.1.0.1", false), endpoint("10.1.0.2", true))},
			"a/headless": {slice("https", 8443, endpoint("10.1.0.3", true))},
			"a/waiting":  {slice("https", 8443, endpoint("10.1.0.4", false))},
			"b/usual":    {slice("https", 8443, endpoint("10.1.0.5", true))},
		},
	}
	const noEndpoints = "no endpoints available for service"
	for _, tc := range []struct {
		name                string
		port                int32
		byIP, byEndpoint    string // hosts, or
		failsIP, failsPoint string // a part of the error
	}{
		{name: "a/usual", port: 443, byIP: "10.96.0.7:443", byEndpoint: "10.1.0.2:8443"},
		{name: "a/usual", port: 444, failsIP: "no service port 444 found", failsPoint: "no service port 444 found"},
		{name: "a/headless", port: 443, failsIP: `ClusterIP "None"`, byEndpoint: "10.1.0.3:8443"},
		{name: "a/external", port: 8443, byIP: "hooks.example.org:8443", byEndpoint: "hooks.example.org:8443"},
		{name: "a/waiting", port: 443, byIP: "10.96.0.8:443", failsPoint: noEndpoints},
		{name: "a/bare", port: 443, byIP: "10.96.0.9:443", failsPoint: noEndpoints},
		{name: "b/usual", port: 443, failsIP: "not found", failsPoint: "not found"},
	} {
		for _, way := range []struct {
			endpoints   bool
			want, fails string
		}{{false, tc.byIP, tc.failsIP}, {true, tc.byEndpoint, tc.failsPoint}} {
			at, err := New(all, way.endpoints).ResolveEndpoint(tc.name[:1], tc.name[2:], tc.port)
			switch {
			case way.fails != "":
				if err == nil || !strings.Contains(err.Error(), way.fails) {
					t.Errorf("%s:%d, endpoints %t: %v, %v; want an error with %q", tc.name, tc.port, way.endpoints, at, err, way.fails)
				}
			case err != nil:
				t.Errorf("%s:%d, endpoints %t: %v", tc.name, tc.port, way.endpoints, err)
			case at.Scheme != "https" || at.Host != way.want:
				t.Errorf("%s:%d, endpoints %t: %s, want https://%s", tc.name, tc.port, way.endpoints, at, way.want)
			}
		}
	}
	all.err = errors.New("the disk is gone")
	if _, err := New(all, true).ResolveEndpoint("a", "usual", 443); !errors.Is(err, all.err) {
		t.Errorf("slices that cannot be read: %v", err)
	}
}
