package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/kernel/secretfile"
)

func open(t *testing.T, cfg Config) *PKI {
	t.Helper()
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFilesOfFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	p := open(t, Config{Dir: dir, AdvertiseIPs: []net.IP{net.IPv4(192, 0, 2, 7)}, ServiceIP: net.IPv4(10, 96, 0, 1)})
	if _, _, err := p.Node("n1", []net.IP{net.IPv4(192, 0, 2, 8)}); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteAdminKubeconfig(filepath.Join(dir, "admin.kubeconfig"), "https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	secret := 0
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if entry.Name() == ".lock" || entry.Name() == issuedDirectory {
			continue
		}
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("temporary file %s left", entry.Name())
		}
		if strings.HasSuffix(entry.Name(), ".crt") {
			continue
		}
		secret++
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", entry.Name(), info.Mode().Perm())
		}
	}
	if secret != 9 { // ca, sa, apiserver, admin, super admin, kubelet client, two of the node, kubeconfig
		t.Errorf("%d secret files", secret)
	}
	cfg, err := clientcmd.LoadFromFile(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Clusters["pintle"].Server != "https://127.0.0.1:6443" || len(cfg.AuthInfos["admin"].ClientKeyData) == 0 {
		t.Errorf("kubeconfig %+v", cfg.Clusters["pintle"])
	}
}

// A directory of a release whose administrator was of system:masters gets one that RBAC holds.
func TestAdministratorOfAnEarlierRelease(t *testing.T) {
	dir := t.TempDir()
	former, err := open(t, Config{Dir: dir}).Client("admin", "kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, Config{Dir: dir})
	if got := p.Admin().Cert.Subject.Organization; len(got) != 1 || got[0] != ClusterAdminsGroup {
		t.Errorf("groups %q", got)
	}
	onDisk, err := readCert(filepath.Join(dir, "admin.crt"))
	if err != nil || !onDisk.Equal(p.Admin().Cert) || onDisk.Equal(former.Cert) {
		t.Errorf("the certificate in the directory is the former one: %v", err)
	}
	again := open(t, Config{Dir: dir})
	if !again.Admin().Cert.Equal(p.Admin().Cert) {
		t.Error("issued at each start")
	}
}

func TestServingNames(t *testing.T) {
	p := open(t, Config{Dir: t.TempDir(), AdvertiseIPs: []net.IP{net.IPv4(192, 0, 2, 7)}, ServiceIP: net.IPv4(10, 96, 0, 1)})
	host, _ := os.Hostname()
	for _, name := range []string{
		"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "192.0.2.7", "10.96.0.1", host,
	} {
		if err := p.Serving().Cert.VerifyHostname(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Serving().Cert.VerifyHostname("example.org"); err == nil {
		t.Error("accepts any name")
	}
}

func TestIdentities(t *testing.T) {
	p := open(t, Config{Dir: t.TempDir()})
	client, serving, err := p.Node("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, user, group string
		pair              Pair
		usage             x509.ExtKeyUsage
	}{
		{"admin", "kubernetes-admin", "pintle:cluster-admins", p.Admin(), x509.ExtKeyUsageClientAuth},
		{"super admin", "kubernetes-super-admin", "system:masters", p.SuperAdmin(), x509.ExtKeyUsageClientAuth},
		{"kubelet client", "kube-apiserver-kubelet-client", "", p.KubeletClient().Pair(), x509.ExtKeyUsageClientAuth},
		{"node", "system:node:n1", "system:nodes", client.Pair(), x509.ExtKeyUsageClientAuth},
		{"node serving", "system:node:n1", "system:nodes", serving.Pair(), x509.ExtKeyUsageServerAuth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.pair.Cert.Subject.CommonName; got != tt.user {
				t.Errorf("user %q", got)
			}
			if got := strings.Join(tt.pair.Cert.Subject.Organization, ","); got != tt.group {
				t.Errorf("groups %q", got)
			}
			if _, err := tt.pair.Cert.Verify(x509.VerifyOptions{Roots: p.CAPool(), KeyUsages: []x509.ExtKeyUsage{tt.usage}}); err != nil {
				t.Error(err)
			}
			if _, err := tls.X509KeyPair(tt.pair.CertPEM, tt.pair.KeyPEM); err != nil {
				t.Error(err)
			}
		})
	}
	for _, bad := range []string{"", "../x", ".hidden", "a/b"} {
		if _, _, err := p.Node(bad, nil); err == nil {
			t.Errorf("node name %q accepted", bad)
		}
	}
}

func TestReopen(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name             string
		change           func(t *testing.T, cfg *Config)
		sameLeaf, sameCA bool
		wantErr          string
	}{
		{name: "nothing changed", change: func(*testing.T, *Config) {}, sameLeaf: true, sameCA: true},
		{name: "new address", change: func(_ *testing.T, c *Config) { c.AdvertiseIPs = []net.IP{net.IPv4(192, 0, 2, 9)} }, sameCA: true},
		{name: "soon expired", change: func(_ *testing.T, c *Config) {
			c.Now = func() time.Time { return now.Add(leafLife - 24*time.Hour) }
		}, sameCA: true},
		{name: "damaged leaf", change: func(t *testing.T, c *Config) { overwrite(t, c, "apiserver.crt") }, sameCA: true},
		{name: "damaged ca", change: func(t *testing.T, c *Config) { overwrite(t, c, "ca.crt") }, wantErr: "ca.crt: damaged"},
		{name: "damaged ca key", change: func(t *testing.T, c *Config) { overwrite(t, c, "ca.key") }, wantErr: "ca.key: damaged"},
		{name: "damaged token key", change: func(t *testing.T, c *Config) { overwrite(t, c, "sa.key") }, wantErr: "sa.key: damaged"},
		{name: "ca key lost", change: func(t *testing.T, c *Config) {
			if err := os.Remove(filepath.Join(c.Dir, "ca.key")); err != nil {
				t.Fatal(err)
			}
		}, wantErr: "ca.key is missing"},
		{name: "ca expired", change: func(_ *testing.T, c *Config) {
			c.Now = func() time.Time { return now.Add(caLife + time.Hour) }
		}, wantErr: "expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Dir: t.TempDir()}
			before := open(t, cfg)
			tt.change(t, &cfg)
			after, err := Open(cfg)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Equal(before.CAPEM(), after.CAPEM()); got != tt.sameCA {
				t.Errorf("same CA: %v", got)
			}
			if got := bytes.Equal(before.Serving().CertPEM, after.Serving().CertPEM); got != tt.sameLeaf {
				t.Errorf("same leaf: %v", got)
			}
			if !before.saKey.Equal(after.saKey) {
				t.Error("service account key changed")
			}
		})
	}
}

func overwrite(t *testing.T, c *Config, file string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.Dir, file), []byte("not pem"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A first start that died between key and certificate is finished by the next.
func TestCAKeyWithoutCertificate(t *testing.T) {
	dir := t.TempDir()
	_, keyPEM, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := secretfile.Write(filepath.Join(dir, "ca.key"), keyPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, Config{Dir: dir})
	if _, err := p.Admin().Cert.Verify(x509.VerifyOptions{Roots: p.CAPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Fatal(err)
	}
}
