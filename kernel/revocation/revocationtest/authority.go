package revocationtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"
)

// Authority signs lists of revoked certificates.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// New makes an authority as kubeadm and earlier releases do: its certificate does not say that it
// signs lists.
func New(t *testing.T, name string) Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Authority{cert, key}
}

// Leaf is a certificate of the authority, as far as lists look at one.
func (a Authority) Leaf(serial int64) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial), RawIssuer: a.Cert.RawSubject, Subject: pkix.Name{CommonName: "admin"}}
}

// List is a list that Sign adds serial numbers to.
type List[L any] interface {
	Sign(ca *x509.Certificate, key crypto.Signer, now time.Time, serials ...*big.Int) (L, []byte, error)
}

// Sign returns the list with more serial numbers, and its file.
func Sign[L List[L]](t *testing.T, a Authority, list L, serials ...int64) (L, []byte) {
	t.Helper()
	var numbers []*big.Int
	for _, n := range serials {
		numbers = append(numbers, big.NewInt(n))
	}
	list, data, err := list.Sign(a.Cert, a.Key, time.Now(), numbers...)
	if err != nil {
		t.Fatal(err)
	}
	return list, data
}
