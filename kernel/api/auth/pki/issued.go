package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/secretfile"
)

// issuedDirectory has each certificate that was issued and has not expired, by
// its serial number, so that one whose file was replaced can still be revoked.
const issuedDirectory = "issued"

// issuedFile is NAME.SERIAL.crt: the name of the certificate's file, and its
// serial number in hexadecimal digits.
func (p *PKI) issuedFile(name string, cert *x509.Certificate) string {
	return filepath.Join(p.path(issuedDirectory), fmt.Sprintf("%s.%x.crt", name, cert.SerialNumber))
}

// issued reads what was recorded. A file that is damaged, or no file, is left out: it
// takes part in no decision.
func (p *PKI) issued() ([]Certificate, error) {
	files, err := filepath.Glob(filepath.Join(p.path(issuedDirectory), "*.crt"))
	if err != nil {
		return nil, err
	}
	var out []Certificate
	for _, f := range files {
		data, err := secretfile.Read(f)
		if err != nil {
			continue
		}
		if b, _ := pem.Decode(data); b != nil && b.Type == blockCertificate {
			if cert, err := x509.ParseCertificate(b.Bytes); err == nil {
				name := strings.TrimSuffix(filepath.Base(f), fmt.Sprintf(".%x.crt", cert.SerialNumber))
				out = append(out, Certificate{Name: name, Cert: cert, requestor: requestorOf(data)})
			}
		}
	}
	return out, nil
}

// State is what a certificate is good for.
type State string

// The states.
const (
	StateCurrent State = "current" // that of its file
	StateFormer  State = "former"  // another took its place; good until it expires or is revoked
	StateIssued  State = "issued"  // by a request; good until it expires or is revoked
	StateRevoked State = "revoked"
	StateExpired State = "expired"
	StateForeign State = "unknown" // the file is damaged, or of another authority
)

// Certificate is one of those that the authority issued.
type Certificate struct {
	Name  string // base name of its file, or csr- and the UID of the request
	Cert  *x509.Certificate
	State State
	// requestor asked for it; empty: none did, or the record is of an earlier release.
	requestor string
}

// Directory is the directory of a kernel, which may run or not.
type Directory struct{ p *PKI }

// OpenDirectory opens one that a kernel has made.
func OpenDirectory(dir string) (*Directory, error) {
	p, err := OpenAuthority(dir)
	if err != nil {
		return nil, err
	}
	return &Directory{p}, nil
}

// CA is the cluster's authority.
func (d *Directory) CA() *x509.Certificate { return d.p.ca }

// Revocations are those of the file.
func (d *Directory) Revocations() *revocation.List { return d.p.guard.List() }

// List gives the certificates of the directory and those that were in their place.
func (d *Directory) List() ([]Certificate, error) {
	files, err := filepath.Glob(d.p.path("*.crt"))
	if err != nil {
		return nil, err
	}
	out := []Certificate{}
	known := map[string]bool{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".crt")
		cert, err := readCert(f)
		c := Certificate{Name: name, Cert: cert, State: StateForeign}
		if err == nil {
			known[cert.SerialNumber.String()] = true
			c.State = d.state(cert, StateCurrent)
			if name != "ca" && cert.CheckSignatureFrom(d.p.ca) != nil {
				c.State = StateForeign
			}
		}
		out = append(out, c)
	}
	issued, err := d.p.issued()
	if err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	for _, c := range issued {
		if !known[c.Cert.SerialNumber.String()] {
			valid := StateFormer
			if byRequest(c.Name) {
				valid = StateIssued
			}
			c.State = d.state(c.Cert, valid)
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Certificate) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 || a.Cert == nil || b.Cert == nil {
			return c
		}
		return b.Cert.NotBefore.Compare(a.Cert.NotBefore) // the newest first
	})
	return out, nil
}

func (d *Directory) state(cert *x509.Certificate, valid State) State {
	switch {
	case d.p.guard.List().Revoked(cert):
		return StateRevoked
	case d.p.cfg.Now().After(cert.NotAfter):
		return StateExpired
	}
	return valid
}

// Renew issues certificates anew, with the subject and the names that they have.
func (d *Directory) Renew(names ...string) ([]Pair, error) {
	unlock, err := secretfile.Lock(d.p.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	defer unlock()
	return d.renew(names)
}

func (d *Directory) renew(names []string) ([]Pair, error) {
	wants := make([]profile, len(names))
	for i, name := range names {
		cert, err := d.current(name)
		if err != nil {
			return nil, err
		}
		if len(cert.ExtKeyUsage) != 1 {
			return nil, fmt.Errorf("certificate %s: it is not one that a kernel issues: it has %d usages, want one", name, len(cert.ExtKeyUsage))
		}
		wants[i] = profile{subject: cert.Subject, usage: cert.ExtKeyUsage[0], dns: cert.DNSNames, ips: slices.Clone(cert.IPAddresses)}
	}
	var out []Pair
	for i, name := range names {
		pair, err := d.p.issue(name, wants[i])
		if err != nil {
			return out, fmt.Errorf("certificate %s: %w", name, err)
		}
		out = append(out, pair)
	}
	return out, nil
}

var errNoCA = errors.New("the cluster's CA is neither renewed nor revoked, since every certificate hangs on it: move pki/ away to start over with new keys")

// current is the certificate of a file.
func (d *Directory) current(name string) (*x509.Certificate, error) {
	if name == "ca" {
		return nil, errNoCA
	}
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return nil, fmt.Errorf("certificate %q: want a name that pintle pki list shows", name)
	}
	cert, err := readCert(d.p.path(name + ".crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("certificate %s: there is none in %s: want a name that pintle pki list shows", name, d.p.cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	if err := cert.CheckSignatureFrom(d.p.ca); err != nil {
		return nil, fmt.Errorf("certificate %s: it is not of the cluster's CA: %w", name, err)
	}
	return cert, nil
}

// Revocation says what to revoke.
type Revocation struct {
	// Names are files of the directory: the certificates of now are revoked, and
	// issued anew.
	Names []string
	// Certificates are any of the cluster's CA, also such as lie elsewhere.
	Certificates []*x509.Certificate
	// Serials are those of certificates of which nothing else is known.
	Serials []*big.Int
}

// Revoke puts certificates on the list, and issues those anew whose file lies in
// the directory: the kernel works with them. It is done, or nothing is.
func (d *Directory) Revoke(r Revocation) (revoked []*x509.Certificate, renewed []Pair, err error) {
	unlock, err := secretfile.Lock(d.p.cfg.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("pki: %w", err)
	}
	defer unlock()
	// Another command may have changed it since it was opened.
	list, err := revocation.Read(d.p.path(RevocationFile), d.p.ca)
	if err != nil {
		return nil, nil, fmt.Errorf("pki: %w", err)
	}
	names := slices.Clone(r.Names)
	for _, name := range r.Names {
		cert, err := d.current(name)
		if err != nil {
			return nil, nil, err
		}
		revoked = append(revoked, cert)
	}
	all, err := d.List()
	if err != nil {
		return nil, nil, err
	}
	for _, cert := range r.Certificates {
		if cert.Equal(d.p.ca) {
			return nil, nil, errNoCA
		}
		if err := cert.CheckSignatureFrom(d.p.ca); err != nil {
			return nil, nil, fmt.Errorf("certificate of %q with serial number %x: it is not of the cluster's CA: %w", cert.Subject.CommonName, cert.SerialNumber, err)
		}
		revoked = append(revoked, cert)
		for _, c := range all {
			if c.Cert != nil && c.Cert.Equal(cert) && c.State == StateCurrent && !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	next := list
	var data []byte
	for _, cert := range revoked {
		if next, data, err = d.p.SignRevocations(next, cert.SerialNumber); err != nil {
			return nil, nil, fmt.Errorf("pki: %w", err)
		}
	}
	if len(r.Serials) > 0 {
		if slices.ContainsFunc(r.Serials, func(n *big.Int) bool { return n.Cmp(d.p.ca.SerialNumber) == 0 }) {
			return nil, nil, errNoCA
		}
		if next, data, err = d.p.SignRevocations(next, r.Serials...); err != nil {
			return nil, nil, fmt.Errorf("pki: %w", err)
		}
	}
	if data == nil {
		return nil, nil, nil
	}
	if err := secretfile.Write(d.p.path(RevocationFile), data, 0o600); err != nil {
		return nil, nil, fmt.Errorf("pki: %w", err)
	}
	d.p.guard.Add(next)
	renewed, err = d.renew(names)
	return revoked, renewed, err
}

// Find adds the certificates whose serial number begins with hexadecimal digits.
// A whole number that nothing was recorded of is revoked as such.
func (d *Directory) Find(r *Revocation, digits string) error {
	all, err := d.List()
	if err != nil {
		return err
	}
	const least, whole = 6, 16
	digits = strings.TrimLeft(strings.ToLower(strings.ReplaceAll(digits, ":", "")), "0")
	var found []*x509.Certificate
	for _, c := range all {
		if c.Cert != nil && len(digits) >= least && strings.HasPrefix(fmt.Sprintf("%x", c.Cert.SerialNumber), digits) {
			found = append(found, c.Cert)
		}
	}
	number, ok := new(big.Int).SetString(digits, 16)
	switch {
	case len(found) == 1:
		r.Certificates = append(r.Certificates, found[0])
	case len(found) == 0 && ok && number.Sign() > 0 && len(digits) >= whole:
		r.Serials = append(r.Serials, number)
	default:
		return fmt.Errorf("serial number %q: %d certificates begin so; want at least %d digits of one that pintle pki list shows, or all digits", digits, len(found), least)
	}
	return nil
}
