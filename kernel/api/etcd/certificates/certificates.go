package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// renewBefore: a certificate that ends sooner is made anew.
	renewBefore = 30 * 24 * time.Hour
	// backdate allows for clocks that differ.
	backdate = 5 * time.Minute
)

// Options say what to make.
type Options struct {
	Directory string
	// Hosts are the names and addresses at which members are reached, beside
	// localhost.
	Hosts []string
	// Now is the clock; nil is the machine's.
	Now func() time.Time
}

// Pair is a certificate and its key, as files.
type Pair struct{ CertFile, KeyFile string }

// Files are what Write made or found.
type Files struct {
	CAFile               string
	Server, Peer, Client Pair
}

// Flags are those of an etcd that takes clients and peers with certificates only.
func (f Files) Flags() []string {
	return []string{
		"--cert-file=" + f.Server.CertFile, "--key-file=" + f.Server.KeyFile, "--trusted-ca-file=" + f.CAFile, "--client-cert-auth",
		"--peer-cert-file=" + f.Peer.CertFile, "--peer-key-file=" + f.Peer.KeyFile, "--peer-trusted-ca-file=" + f.CAFile, "--peer-client-cert-auth",
	}
}

// Write makes what the folder lacks. What is there and good stays: a second run
// with other hosts makes certificates for them by the same authority.
func Write(o Options) (Files, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, host := range o.Hosts {
		if host == "" || strings.ContainsAny(host, "/: ") && net.ParseIP(host) == nil {
			return Files{}, fmt.Errorf("host %q: want a name or an address, without scheme and port", host)
		}
	}
	if err := os.MkdirAll(o.Directory, 0o700); err != nil {
		return Files{}, fmt.Errorf("certificates of etcd: %w", err)
	}
	ca, key, err := o.authority()
	if err != nil {
		return Files{}, fmt.Errorf("certificates of etcd: authority: %w", err)
	}
	f := Files{CAFile: o.pair("ca").CertFile}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, o.Hosts...)
	// A member asks itself as a client, and peers ask each other.
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, leaf := range []struct {
		name, subject string
		usage         []x509.ExtKeyUsage
		hosts         []string
		to            *Pair
	}{
		{"server", "etcd", both, hosts, &f.Server},
		{"peer", "etcd-peer", both, hosts, &f.Peer},
		{"client", "pintle", both[1:], nil, &f.Client},
	} {
		*leaf.to = o.pair(leaf.name)
		if err := o.leaf(*leaf.to, leaf.subject, leaf.usage, leaf.hosts, ca, key); err != nil {
			return Files{}, fmt.Errorf("certificates of etcd: %s: %w", leaf.name, err)
		}
	}
	return f, nil
}

func (o Options) pair(name string) Pair {
	return Pair{filepath.Join(o.Directory, name+".crt"), filepath.Join(o.Directory, name+".key")}
}

// authority reads the authority of the folder, or makes one where there is none.
func (o Options) authority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	p := o.pair("ca")
	_, certErr := os.Stat(p.CertFile)
	info, keyErr := os.Stat(p.KeyFile)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		now := o.Now()
		template := &x509.Certificate{
			Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		return issue(p, template, nil, nil)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, nil, fmt.Errorf("%w; both %s and %s are needed, or neither", err, p.CertFile, p.KeyFile)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, nil, fmt.Errorf("%s can be read by others: chmod 600 it, and make the authority anew if it is not known who did", p.KeyFile)
	}
	ca, key, err := load(p)
	switch {
	case err != nil:
		return nil, nil, err
	case !ca.IsCA:
		return nil, nil, fmt.Errorf("%s is no authority", p.CertFile)
	case o.Now().After(ca.NotAfter):
		return nil, nil, fmt.Errorf("%s ended at %s; take another folder, and give its files to all members and kernels", p.CertFile, ca.NotAfter.Format(time.RFC3339))
	}
	return ca, key, nil
}

func load(p Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s is a %T; want an ECDSA key", p.KeyFile, pair.PrivateKey)
	}
	return pair.Leaf, key, nil
}

// leaf makes a certificate, unless the folder has a good one.
func (o Options) leaf(p Pair, subject string, usage []x509.ExtKeyUsage, hosts []string, ca *x509.Certificate, key *ecdsa.PrivateKey) error {
	now := o.Now()
	if have, _, err := load(p); err == nil && good(have, subject, usage, hosts, ca, now) {
		return os.Chmod(p.KeyFile, 0o600)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: subject}, NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: usage,
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, _, err := issue(p, template, ca, key)
	return err
}

func good(c *x509.Certificate, subject string, usage []x509.ExtKeyUsage, hosts []string, ca *x509.Certificate, now time.Time) bool {
	return c.CheckSignatureFrom(ca) == nil && c.Subject.CommonName == subject && slices.Equal(c.ExtKeyUsage, usage) &&
		now.Add(renewBefore).Before(c.NotAfter) && !now.Before(c.NotBefore) &&
		!slices.ContainsFunc(hosts, func(host string) bool { return c.VerifyHostname(host) != nil })
}

// issue signs a certificate of a new key and writes both; without a parent it signs
// itself.
func issue(p Pair, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(write(p.KeyFile, "PRIVATE KEY", private, 0o600), write(p.CertFile, "CERTIFICATE", der, 0o644)); err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// write puts a file in place as a whole.
func write(path, block string, der []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: block, Bytes: der}); err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := f.Write(text.Bytes()); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
