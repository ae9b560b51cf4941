package revocation

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // an identifier of a key, as RFC 5280 has it
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"slices"
	"time"

	"pintle.dev/pintle/kernel/secretfile"
)

const block = "X509 CRL"

// List is a set of revoked certificates of one authority. It does not change; the
// zero value is empty.
type List struct {
	issuer  []byte // subject of the authority
	number  uint64
	entries map[string]Entry // by the bytes of the serial number
}

// Entry is one revoked certificate.
type Entry struct {
	Serial *big.Int
	Time   time.Time
}

// Number grows with each list that is signed.
func (l *List) Number() uint64 { return l.number }

// Entries are the revoked certificates, by the time of their revocation.
func (l *List) Entries() []Entry {
	return slices.SortedFunc(maps.Values(l.entries), func(a, b Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), a.Serial.Cmp(b.Serial))
	})
}

// Revoked says whether a certificate is on the list.
func (l *List) Revoked(c *x509.Certificate) bool {
	if len(l.entries) == 0 || c.SerialNumber == nil {
		return false
	}
	_, ok := l.entries[string(c.SerialNumber.Bytes())]
	return ok && bytes.Equal(c.RawIssuer, l.issuer)
}

// Has says whether a serial number is on the list.
func (l *List) Has(serial *big.Int) bool {
	_, ok := l.entries[string(serial.Bytes())]
	return ok
}

// Union has what either list has; added says whether that is more than l.
func (l *List) Union(o *List) (union *List, added bool) {
	union = &List{issuer: l.issuer, number: max(l.number, o.number), entries: map[string]Entry{}}
	maps.Copy(union.entries, l.entries)
	for key, e := range o.entries {
		if _, ok := union.entries[key]; !ok {
			union.entries[key], added = e, true
		}
	}
	if len(union.issuer) == 0 {
		union.issuer = o.issuer
	}
	return union, added
}

// Sign adds serial numbers to the list and gives it as PEM, signed by the authority.
func (l *List) Sign(ca *x509.Certificate, key crypto.Signer, now time.Time, serials ...*big.Int) (*List, []byte, error) {
	next := &List{issuer: ca.RawSubject, number: l.number + 1, entries: maps.Clone(l.entries)}
	if next.entries == nil {
		next.entries = map[string]Entry{}
	}
	for _, serial := range serials {
		if serial.Sign() <= 0 {
			return nil, nil, fmt.Errorf("revoke serial number %s: no certificate has it", serial)
		}
		if id := string(serial.Bytes()); next.entries[id].Serial == nil {
			next.entries[id] = Entry{Serial: serial, Time: now.UTC().Truncate(time.Second)}
		}
	}
	template := &x509.RevocationList{
		Number: new(big.Int).SetUint64(next.number), ThisUpdate: now.Add(-time.Minute), NextUpdate: ca.NotAfter,
	}
	for _, e := range next.Entries() {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: e.Serial, RevocationTime: e.Time})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, signing(ca), key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the revocation list: %w", err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
	if len(data) > secretfile.MaxSize {
		return nil, nil, fmt.Errorf("the revocation list would have %d entries, more than its file may hold: replace the cluster's CA", len(next.entries))
	}
	return next, data, nil
}

// signing is the authority as one that may sign lists. Those made by earlier
// releases and by kubeadm do not say so, and are the cluster's all the same.
func signing(ca *x509.Certificate) *x509.Certificate {
	out := *ca
	out.KeyUsage |= x509.KeyUsageCRLSign
	if len(out.SubjectKeyId) == 0 {
		sum := sha1.Sum(ca.RawSubjectPublicKeyInfo) //nolint:gosec // see above
		out.SubjectKeyId = sum[:]
	}
	return &out
}

// Parse reads a list that the authority signed.
func Parse(data []byte, ca *x509.Certificate) (*List, error) {
	b, rest := pem.Decode(data)
	if b == nil || b.Type != block || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("damaged: want one PEM block %q", block)
	}
	parsed, err := x509.ParseRevocationList(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if !bytes.Equal(parsed.RawIssuer, ca.RawSubject) {
		return nil, fmt.Errorf("it is of another authority (%s)", parsed.Issuer)
	}
	if err := parsed.CheckSignatureFrom(signing(ca)); err != nil {
		return nil, fmt.Errorf("it was not signed by the cluster's CA: %w", err)
	}
	if parsed.Number == nil || !parsed.Number.IsUint64() {
		return nil, errors.New("damaged: it has no usable number")
	}
	l := &List{issuer: ca.RawSubject, number: parsed.Number.Uint64(), entries: make(map[string]Entry, len(parsed.RevokedCertificateEntries))}
	for _, e := range parsed.RevokedCertificateEntries {
		l.entries[string(e.SerialNumber.Bytes())] = Entry{Serial: e.SerialNumber, Time: e.RevocationTime}
	}
	return l, nil
}

// Read reads the list of a file; one that is absent is empty.
func Read(path string, ca *x509.Certificate) (*List, error) {
	data, err := secretfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &List{issuer: ca.RawSubject}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("revocation list: %w", err)
	}
	l, err := Parse(data, ca)
	if err != nil {
		return nil, fmt.Errorf("revocation list: %s: %w; restore the file from a backup: without it, revoked certificates would be good again", path, err)
	}
	return l, nil
}
