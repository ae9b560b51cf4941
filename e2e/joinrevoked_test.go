package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// revokedClients: who has a certificate that is revoked is refused at the port of a machine
// that joined, too, and others are not.
func (c *cell) revokedClients(t *testing.T, machine int) {
	pki := filepath.Join(c.Data, "pki")
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	stolen, good := big.NewInt(0x1234_5678_9abc_def0), big.NewInt(0x1234_5678_9abc_def1)
	as := func(serial *big.Int) *http.Client {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: "someone", Organization: []string{"system:masters"}},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, ca.Leaf, &key.PublicKey, ca.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: c.Network.Dial, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Timeout: 10 * time.Second, Transport: transport}
	}
	node, err := c.client.CoreV1().Nodes().Get(bound(t), c.node(machine), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("https://%s:%d/runningpods/", c.lan.IP(machine), node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	answers := func(client *http.Client, want int) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != want {
				return fmt.Errorf("the port of %s answers %s, want %d", c.node(machine), resp.Status, want)
			}
			return nil
		})
	}
	thief, owner := as(stolen), as(good)
	answers(thief, http.StatusOK)
	answers(owner, http.StatusOK)
	if r := c.pintleHere(t, "pki", "revoke", "--data", c.Data, "--serial", fmt.Sprintf("%x", stolen)); r.err != nil {
		t.Fatalf("pki revoke: %s%s", r.stdout, r.stderr)
	}
	answers(thief, http.StatusUnauthorized)
	answers(owner, http.StatusOK)
}
