package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"slices"

	"pintle.dev/pintle/kernel/secretfile"
)

// profile is what a leaf certificate has to say.
type profile struct {
	subject pkix.Name
	usage   x509.ExtKeyUsage
	dns     []string
	ips     []net.IP
}

func (p *PKI) serverProfile() profile {
	names := []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + p.cfg.ClusterDomain,
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		names = append(names, host)
	}
	ips := append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, p.cfg.AdvertiseIPs...)
	if p.cfg.ServiceIP != nil {
		ips = append(ips, p.cfg.ServiceIP)
	}
	return profile{
		subject: pkix.Name{CommonName: "kube-apiserver"},
		usage:   x509.ExtKeyUsageServerAuth,
		dns:     unique(append(names, p.cfg.Hostnames...)),
		ips:     uniqueIPs(ips),
	}
}

// ensure returns the leaf of that base name; it is issued again when it is
// missing, unreadable, of another key or CA, soon to expire, revoked or not of
// the profile. A leaf carries no state, so replacing a damaged one is safe.
func (p *PKI) ensure(file string, want profile) (Pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pair, ok := p.loadLeaf(file, want); ok {
		return pair, nil
	}
	unlock, err := secretfile.Lock(p.cfg.Dir)
	if err != nil {
		return Pair{}, err
	}
	defer unlock()
	// Another process may have issued it since.
	if pair, ok := p.loadLeaf(file, want); ok {
		return pair, nil
	}
	return p.issue(file, want)
}

// issue makes a leaf, under the directory's lock.
func (p *PKI) issue(file string, want profile) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	now := p.cfg.Now()
	until := now.Add(leafLife)
	if until.After(p.ca.NotAfter) {
		until = p.ca.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      want.subject,
		DNSNames:     want.dns,
		IPAddresses:  want.ips,
		NotBefore:    now.Add(-backdate),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{want.usage},
	}, p.ca, &key.PublicKey, p.caKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, err
	}
	pair := Pair{
		CertFile: p.path(file + ".crt"), KeyFile: p.path(file + ".key"), KeyPEM: keyPEM, Cert: cert,
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der}),
	}
	// What was issued is recorded before anybody can have it.
	if err := p.record(file, pair.Cert, pair.CertPEM); err != nil {
		return Pair{}, err
	}
	if err := secretfile.Write(pair.KeyFile, pair.KeyPEM, 0o600); err != nil {
		return Pair{}, err
	}
	if err := secretfile.Write(pair.CertFile, pair.CertPEM, 0o644); err != nil {
		return Pair{}, err
	}
	return pair, nil
}

func (p *PKI) loadLeaf(file string, want profile) (Pair, bool) {
	certFile, keyFile := p.path(file+".crt"), p.path(file+".key")
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return Pair{}, false
	}
	keyPEM, err := secretfile.Read(keyFile)
	if err != nil {
		return Pair{}, false
	}
	loaded, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil || loaded.Leaf == nil {
		return Pair{}, false
	}
	cert := loaded.Leaf
	now := p.cfg.Now()
	left := cert.NotAfter.Sub(now)
	// Near the CA's own end a new leaf would not live longer.
	if left <= 0 || left < renewBefore && cert.NotAfter.Before(p.ca.NotAfter) || now.Before(cert.NotBefore) {
		return Pair{}, false
	}
	if cert.CheckSignatureFrom(p.ca) != nil || !matches(cert, want) || p.guard.List().Revoked(cert) {
		return Pair{}, false
	}
	return Pair{CertFile: certFile, KeyFile: keyFile, CertPEM: certPEM, KeyPEM: keyPEM, Cert: cert}, true
}

func matches(cert *x509.Certificate, want profile) bool {
	if cert.Subject.CommonName != want.subject.CommonName || !slices.Contains(cert.ExtKeyUsage, want.usage) {
		return false
	}
	// Organization is a set: encoding sorts it.
	if !slices.Equal(sorted(cert.Subject.Organization), sorted(want.subject.Organization)) {
		return false
	}
	if !slices.Equal(sorted(cert.DNSNames), sorted(want.dns)) {
		return false
	}
	return slices.Equal(sorted(texts(cert.IPAddresses)), sorted(texts(want.ips)))
}

func sorted(in []string) []string { return slices.Sorted(slices.Values(in)) }

func texts(ips []net.IP) []string {
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}

func unique(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func uniqueIPs(in []net.IP) []net.IP {
	out := make([]net.IP, 0, len(in))
	for _, ip := range in {
		if ip != nil && !slices.ContainsFunc(out, ip.Equal) {
			out = append(out, ip)
		}
	}
	return out
}
