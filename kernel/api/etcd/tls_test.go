package etcd

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

// TestTLS: etcd is reached over TLS with a client certificate, and a kernel
// without the right ones is told which files to look at.
func TestTLS(t *testing.T) {
	if server == nil {
		t.Skip(cluster.ErrNoEtcd)
	}
	// An authority that signs for 127.0.0.1 and for clients is at hand.
	keys, err := pki.Open(pki.Config{Dir: t.TempDir(), AdvertiseIPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	serving, client := keys.Serving(), keys.Admin()
	secure, err := cluster.StartEtcdTLS(t.Context(), nil, t.TempDir(), cluster.TLS{
		CertFile: serving.CertFile, KeyFile: serving.KeyFile, CAFile: keys.CAFile(), ClientCertFile: client.CertFile, ClientKeyFile: client.KeyFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secure.Stop)
	good := Config{Servers: []string{secure.URL}, CertFile: client.CertFile, KeyFile: client.KeyFile, CAFile: keys.CAFile()}
	b, err := Open(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ReadyCheck(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	anonymous, missing := good, good
	anonymous.CertFile, anonymous.KeyFile = "", ""
	missing.CAFile = filepath.Join(t.TempDir(), "ca.crt")
	for want, cfg := range map[string]Config{"check store.etcd.servers and its certificates": anonymous, "check store.etcd.certFile, keyFile and caFile": missing} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		b, err := Open(ctx, cfg)
		cancel()
		if err == nil {
			t.Errorf("etcd was reached; want %q, %v", want, b.Close())
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want %q", err, want)
		}
	}
}
