package api_test

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api"
)

// ownAddress is one of this machine that an EndpointSlice may name: none of loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	for _, a := range must(net.InterfaceAddrs()) {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback, which an EndpointSlice may not name")
	return ""
}

// A webhook that a Service names is reached where no service proxy runs, too.
func TestServiceWebhookWithoutProxy(t *testing.T) {
	address := ownAddress(t)
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.RouteToEndpoints = true })
	c, ctx := overTLS(t, s), t.Context()
	h := newHook(t, "hook", nil)
	// The webhook listens on loopback; what comes to the address is sent on to it.
	port := forward(t, address, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(h.port))))
	must(c.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(port)}}}}, metav1.CreateOptions{}))
	byService := func(w *admissionregistrationv1.ValidatingWebhook) {
		w.ClientConfig = admissionregistrationv1.WebhookClientConfig{CABundle: h.ca,
			Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook", Port: ptr.To[int32](443)}}
	}
	configure(t, c, validatingHook(h, byService, "configmaps"))

	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	waitFor(t, func() bool {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, object, dry)
		return err != nil && strings.Contains(err.Error(), `no endpoints available for service "hook"`)
	})
	must(c.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: &port}},
	}, metav1.CreateOptions{}))
	waitFor(t, func() bool {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, object, dry)
		return err == nil
	})
	if !h.saw("CREATE configmaps") {
		t.Errorf("the webhook was asked %v, want CREATE configmaps", h.seen())
	}
}

// forward takes connections at an address and hands what they say on to another, until
// the test ends; it returns the port.
func forward(t *testing.T, address, to string) int32 {
	t.Helper()
	listener := must(net.Listen("tcp", net.JoinHostPort(address, "0")))
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				return
			}
			join := func(a, b net.Conn) { _, _ = io.Copy(a, b); _ = a.Close(); _ = b.Close() }
			go join(in, out)
			go join(out, in)
		}
	}()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}
