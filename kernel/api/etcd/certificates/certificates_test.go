package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func pool(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM([]byte(read(t, file))) {
		t.Fatalf("%s has no certificate", file)
	}
	return p
}

// talk connects as an etcd with these files would be connected to; nil: no
// certificate of the client.
func talk(t *testing.T, server Files, client *Pair, ca, host string) error {
	t.Helper()
	own, err := tls.LoadX509KeyPair(server.Server.CertFile, server.Server.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		s := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(t, server.CAFile)})
		if s.Handshake() == nil {
			_, _ = s.Write([]byte("k"))
		}
	}()
	cfg := &tls.Config{RootCAs: pool(t, ca), ServerName: host}
	if client != nil {
		mine, err := tls.LoadX509KeyPair(client.CertFile, client.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{mine}
	}
	_, err = io.ReadFull(tls.Client(near, cfg), make([]byte, 1))
	return err
}

func TestWrite(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	dir := filepath.Join(t.TempDir(), "etcd-pki")
	files, err := Write(Options{Directory: dir, Hosts: []string{"10.0.0.5", "etcd-a"}, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Pair{files.Server, files.Peer, files.Client, {files.CAFile, filepath.Join(dir, "ca.key")}} {
		if info, err := os.Stat(p.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", p.KeyFile, info, err)
		}
	}
	strange, err := Write(Options{Directory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		client *Pair
		ca     string
		host   string
		want   bool
	}{
		"a kernel":                       {&files.Client, files.CAFile, "10.0.0.5", true},
		"by name":                        {&files.Client, files.CAFile, "etcd-a", true},
		"on the machine":                 {&files.Client, files.CAFile, "127.0.0.1", true},
		"a peer":                         {&files.Peer, files.CAFile, "localhost", true},
		"nobody":                         {nil, files.CAFile, "localhost", false},
		"another authority's client":     {&strange.Client, files.CAFile, "localhost", false},
		"another authority's server":     {&files.Client, strange.CAFile, "localhost", false},
		"a host that it is not made for": {&files.Client, files.CAFile, "10.0.0.6", false},
	} {
		if err := talk(t, files, test.client, test.ca, test.host); (err == nil) != test.want {
			t.Errorf("%s: %v, want it to pass: %v", name, err, test.want)
		}
	}
	// A second run keeps what is good, and makes what another host needs.
	ca, server, client := read(t, files.CAFile), read(t, files.Server.CertFile), read(t, files.Client.CertFile)
	if _, err := Write(Options{Directory: dir, Now: clock}); err != nil || read(t, files.Server.CertFile) != server || read(t, files.Client.CertFile) != client {
		t.Errorf("a second run made certificates anew: %v", err)
	}
	if _, err := Write(Options{Directory: dir, Hosts: []string{"10.0.0.6"}, Now: clock}); err != nil || read(t, files.CAFile) != ca || read(t, files.Server.CertFile) == server {
		t.Errorf("another host: %v", err)
	}
	if err := talk(t, files, &files.Client, files.CAFile, "10.0.0.6"); err != nil {
		t.Errorf("another host: %v", err)
	}
	now = now.Add(leafLife - renewBefore + time.Hour)
	if _, err := Write(Options{Directory: dir, Now: clock}); err != nil || read(t, files.CAFile) != ca || read(t, files.Client.CertFile) == client {
		t.Errorf("certificates that end soon: %v", err)
	}
	now = now.Add(authorityLife)
	if _, err := Write(Options{Directory: dir, Now: clock}); err == nil || !strings.Contains(err.Error(), "ca.crt ended at") {
		t.Errorf("an authority that has ended: %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, host := range []string{"", "https://a", "a:2379", "a b"} {
		if _, err := Write(Options{Directory: t.TempDir(), Hosts: []string{host}}); err == nil || !strings.Contains(err.Error(), "want a name or an address") {
			t.Errorf("host %q: %v", host, err)
		}
	}
	dir := t.TempDir()
	if _, err := Write(Options{Directory: dir}); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "ca.key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(Options{Directory: dir}); err == nil || !strings.Contains(err.Error(), "can be read by others") {
		t.Errorf("a key for everybody: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(Options{Directory: dir}); err == nil || !strings.Contains(err.Error(), "or neither") {
		t.Errorf("an authority without its key: %v", err)
	}
}
