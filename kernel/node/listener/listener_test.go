package listener

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestTaken: who wants a port that the kernel listens on does not get it by writing its address another way.
func TestTaken(t *testing.T) {
	s := Set{{"the API server", "0.0.0.0", 6443}, {"metrics", "127.0.0.1", 9000}}
	for _, c := range []struct {
		name     string
		protocol corev1.Protocol
		ip       string
		port     int32
		want     string
	}{
		{"any address", corev1.ProtocolTCP, "", 6443, "the API server"},
		{"no protocol is TCP", "", "", 6443, "the API server"},
		{"one address of all", corev1.ProtocolTCP, "192.0.2.1", 6443, "the API server"},
		{"loopback of all", corev1.ProtocolTCP, "127.0.0.1", 6443, "the API server"},
		{"unspecified of IPv6", corev1.ProtocolTCP, "::", 9000, "metrics"},
		{"mapped", corev1.ProtocolTCP, "::ffff:127.0.0.1", 9000, "metrics"},
		{"mapped unspecified", corev1.ProtocolTCP, "::ffff:0.0.0.0", 9000, "metrics"},
		{"not an address", corev1.ProtocolTCP, "127.1", 9000, "metrics"},
		{"another protocol", corev1.ProtocolUDP, "", 6443, ""},
		{"another port", corev1.ProtocolTCP, "", 6444, ""},
		{"another address", corev1.ProtocolTCP, "192.0.2.1", 9000, ""},
		{"no port", corev1.ProtocolTCP, "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, ok := s.Taken(c.protocol, c.ip, c.port)
			if l.Owner != c.want || ok != (c.want != "") {
				t.Errorf("%q, %t; want %q", l.Owner, ok, c.want)
			}
		})
	}
}

// TestLocal: loopback is the machine's own, an address for documentation is not.
func TestLocal(t *testing.T) {
	for ip, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "127.9.9.9": true, "192.0.2.77": false, "x": false} {
		if got, err := Local(ip); err != nil || got != want {
			t.Errorf("%s: %t, %v", ip, got, err)
		}
	}
}
