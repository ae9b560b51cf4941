package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The front proxy's authority is another than the cluster's: neither's certificates are
// good for the other.
func TestFrontProxy(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	cfg := Config{Dir: dir, Now: func() time.Time { return now }}
	p := open(t, cfg)
	if _, err := os.Stat(filepath.Join(dir, frontProxyDirectory)); !os.IsNotExist(err) {
		t.Fatalf("nobody has asked for it: %v", err)
	}
	front, err := p.FrontProxy()
	if err != nil {
		t.Fatal(err)
	}
	leaf := front.Client().Pair()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(front.CAPEM()) {
		t.Fatal("no authority")
	}
	client := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: now}
	if _, err := leaf.Cert.Verify(client); err != nil || leaf.Cert.Subject.CommonName != FrontProxyName || len(leaf.Cert.Subject.Organization) > 0 {
		t.Errorf("%v %v", leaf.Cert.Subject, err)
	}
	if _, err := p.SuperAdmin().Cert.Verify(client); err == nil {
		t.Error("an administrator is a front proxy")
	}
	client.Roots = p.CAPool()
	if _, err := leaf.Cert.Verify(client); err == nil {
		t.Error("the front proxy is a client of the cluster")
	}
	if info, err := os.Stat(leaf.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", info, err)
	}

	// Another start has the same; a renewal comes in time, and is told.
	again, err := open(t, cfg).FrontProxy()
	if err != nil || !slices.Equal(again.CAPEM(), front.CAPEM()) || again.Client().Pair().Cert.SerialNumber.Cmp(leaf.Cert.SerialNumber) != 0 {
		t.Errorf("another start: %v", err)
	}
	told := &counter{}
	front.Client().AddListener(told)
	now = now.Add(leafLife - renewBefore + time.Hour)
	renewed, err := p.Renew()
	if err != nil || !slices.Contains(renewed, FrontProxyName) || told.n.Load() != 1 {
		t.Errorf("renewed %v, %v, told %d times", renewed, err, told.n.Load())
	}
	if front.Client().Pair().Cert.SerialNumber.Cmp(leaf.Cert.SerialNumber) == 0 {
		t.Error("the certificate is the same")
	}

	// What is damaged is named, and left alone.
	file := filepath.Join(dir, frontProxyDirectory, "ca.key")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, cfg).FrontProxy(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without its authority's key: %v", err)
	}
}
