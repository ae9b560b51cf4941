package api_test

import (
	"crypto/tls"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A certificate that is renewed while the server runs is shown to who comes
// then; connections that are there go on.
func TestServingCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	before := overTLS(t, s)
	if _, err := before.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	shown := func() *big.Int {
		conn, err := tls.Dial("tcp", u.Host, &tls.Config{RootCAs: s.PKI().CAPool()})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber
	}
	first := shown()
	if err := os.Remove(filepath.Join(dir, "pki", "apiserver.crt")); err != nil {
		t.Fatal(err)
	}
	if names, err := s.PKI().Renew(); err != nil || len(names) != 1 || names[0] != "apiserver" {
		t.Fatalf("renewed %q, %v", names, err)
	}
	waitFor(t, func() bool { return shown().Cmp(first) != 0 })
	if _, err := before.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the former connection: %v", err)
	}
	data, err := overTLS(t, s).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(data), `pintle_certificate_expiration_timestamp_seconds{certificate="apiserver"}`) {
		t.Errorf("no metric of the certificate's end: %v", err)
	}
}
