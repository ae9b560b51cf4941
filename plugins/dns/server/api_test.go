package server

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

var kinds = map[string]struct{ kind, version string }{
	"/api/v1/namespaces":                       {"NamespaceList", "v1"},
	"/api/v1/services":                         {"ServiceList", "v1"},
	"/apis/discovery.k8s.io/v1/endpointslices": {"EndpointSliceList", "discovery.k8s.io/v1"},
}

// serveAPI is an API with these objects on a socket: lists, and watches that say no more.
func serveAPI(t *testing.T, objects map[string][]runtime.Object) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, known := objects[r.URL.Path]
		if !known {
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		encode := json.NewEncoder(w)
		if r.URL.Query().Get("watch") == "" {
			_ = encode.Encode(map[string]any{"kind": kinds[r.URL.Path].kind, "apiVersion": kinds[r.URL.Path].version, "metadata": map[string]any{"resourceVersion": "7"}, "items": list})
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = encode.Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: 422})
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return path
}

func service(name, namespace string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	change(&s.Spec)
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	return s
}

func slice(name, service, namespace string, port int32, portName string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta:  metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &portName, Protocol: ptr.To(corev1.ProtocolTCP), Port: &port}},
	}
}

func endpoint(address, hostname string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if hostname != "" {
		e.Hostname = &hostname
	}
	return e
}

// cluster is that of the specification's examples.
func cluster() map[string][]runtime.Object {
	namespace := func(name string) *corev1.Namespace {
		return &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	https := []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443}}
	return map[string][]runtime.Object{
		"/api/v1/namespaces": {namespace("default"), namespace("kube-system"), namespace("com")},
		"/api/v1/services": {
			service("kubernetes", "default", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = "10.3.0.1", https }),
			service("headless", "default", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = "None", https }),
			service("empty", "default", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = "None", https }),
			service("foo", "default", func(s *corev1.ServiceSpec) {
				s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "www.example.com"
			}),
			// Named as a name of the world: whole names are the world's.
			service("example", "com", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = "10.3.0.9", https }),
		},
		"/apis/discovery.k8s.io/v1/endpointslices": {
			slice("headless-1", "headless", "default", 443, "https", endpoint("10.3.0.100", "my-pet", true), endpoint("10.3.0.101", "", true), endpoint("10.3.0.102", "", false)),
		},
	}
}
