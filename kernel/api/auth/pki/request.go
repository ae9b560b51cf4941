package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// requestPrefix is what records of requests begin with. No other name does.
	requestPrefix = "csr-"
	// MaxRequest is how many bytes of DER a request may have: servers take no
	// larger certificate from a client, and records stay small.
	MaxRequest = 64 << 10
)

var uidForm = regexp.MustCompile(`^[0-9a-f-]{1,64}$`)

func byRequest(name string) bool { return strings.HasPrefix(name, requestPrefix) }

// Request asks for a certificate for a key that its owner keeps.
type Request struct {
	CSR *x509.CertificateRequest
	// UID is that of the CertificateSigningRequest, Requestor the user who made it; the
	// record has both.
	UID, Requestor string

	KeyUsage    x509.KeyUsage
	ExtKeyUsage []x509.ExtKeyUsage
	// NotAfter is at most the end of the authority.
	NotBefore, NotAfter time.Time
}

// Refusal is an error that no further try changes: the authority signs no such
// certificate.
type Refusal struct{ text string }

func (r *Refusal) Error() string { return r.text }

// Refuse is a Refusal for a reason.
func Refuse(why error) error { return &Refusal{why.Error()} }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// SignRequest issues the certificate as PEM. Subject and alternative names are the
// request's, its extensions are not taken over, and it is no authority. It is recorded
// before it is returned. The error is a *Refusal for what would have the rights of
// system:masters, could serve as the API server, or is more than one requestor may have.
func (p *PKI) SignRequest(r Request) ([]byte, error) {
	if err := p.acceptable(r); err != nil {
		return nil, err
	}
	if err := p.room(r.Requestor, r.CSR.Subject.CommonName); err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	notAfter := r.NotAfter
	if notAfter.After(p.ca.NotAfter) {
		notAfter = p.ca.NotAfter
	}
	if now := p.cfg.Now(); !now.Before(p.ca.NotAfter) || !r.NotBefore.Before(p.ca.NotAfter) {
		return nil, fmt.Errorf("the signer has expired: NotAfter=%v", p.ca.NotAfter)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: r.CSR.Subject,
		DNSNames: r.CSR.DNSNames, IPAddresses: r.CSR.IPAddresses, EmailAddresses: r.CSR.EmailAddresses, URIs: r.CSR.URIs,
		NotBefore: r.NotBefore, NotAfter: notAfter, KeyUsage: r.KeyUsage, ExtKeyUsage: r.ExtKeyUsage,
		BasicConstraintsValid: true,
	}, p.ca, r.CSR.PublicKey, p.caKey)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der})
	uid := r.UID
	if !uidForm.MatchString(uid) {
		uid = "unknown"
	}
	if err := p.record(requestPrefix+uid, cert, asRecord(r.Requestor, certPEM)); err != nil {
		return nil, fmt.Errorf("record the certificate in %s: %w", p.path(issuedDirectory), err)
	}
	return certPEM, nil
}

// acceptable refuses what the authority never signs, even if it is approved.
func (p *PKI) acceptable(r Request) error {
	if n := len(r.CSR.Raw); n > MaxRequest {
		return refuse("the request has %d bytes, want at most %d", n, MaxRequest)
	}
	if err := r.CSR.CheckSignature(); err != nil {
		return refuse("unable to verify certificate request signature: %v", err)
	}
	if slices.Contains(r.CSR.Subject.Organization, user.SystemPrivilegedGroup) {
		return refuse("a certificate of group %s is not issued by request", user.SystemPrivilegedGroup)
	}
	if !slices.ContainsFunc(r.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageServerAuth || u == x509.ExtKeyUsageAny
	}) && len(r.ExtKeyUsage) > 0 {
		return nil
	}
	named := x509.Certificate{IPAddresses: slices.Clone(r.CSR.IPAddresses)}
	for _, name := range r.CSR.DNSNames {
		name = strings.TrimSuffix(name, ".")
		if ip := net.ParseIP(name); ip != nil {
			named.IPAddresses = append(named.IPAddresses, ip) // some clients compare it so
		}
		named.DNSNames = append(named.DNSNames, name)
	}
	for _, name := range p.serverNames() {
		if named.VerifyHostname(name) == nil {
			return refuse("a server's certificate for %s, which is the API server, is not issued by request", name)
		}
	}
	return nil
}

// serverNames are all names and addresses of the API server's certificate: its machine's too.
// A node of the kernel's own has its certificate from Node, and not by request.
func (p *PKI) serverNames() []string {
	want := p.serverProfile()
	names, ips := want.dns, want.ips
	if p.server != nil { // the machine's name may have changed since
		cert := p.server.Pair().Cert
		names, ips = slices.Concat(names, cert.DNSNames), slices.Concat(ips, cert.IPAddresses)
	}
	out := make([]string, 0, len(names)+len(ips))
	for _, name := range names {
		out = append(out, strings.TrimSuffix(name, "."))
	}
	return append(out, texts(ips)...)
}
