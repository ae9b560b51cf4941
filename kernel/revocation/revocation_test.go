package revocation

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes one as kubeadm and earlier releases do: it does not say that
// it signs lists.
func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func (a authority) sign(t *testing.T, l *List, serials ...int64) (*List, []byte) {
	t.Helper()
	var numbers []*big.Int
	for _, s := range serials {
		numbers = append(numbers, big.NewInt(s))
	}
	l, data, err := l.Sign(a.cert, a.key, time.Now(), numbers...)
	if err != nil {
		t.Fatal(err)
	}
	return l, data
}

func (a authority) leaf(serial int64) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial), RawIssuer: a.cert.RawSubject, Subject: pkix.Name{CommonName: "admin"}}
}

// A list survives its file, in the order of the revocations, and its numbers grow.
func TestList(t *testing.T) {
	a := newAuthority(t, "kubernetes")
	l, _ := a.sign(t, &List{}, 7, 300)
	l, data := a.sign(t, l, 7, 9)
	path := filepath.Join(t.TempDir(), "ca.crl")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path, a.cert)
	if err != nil {
		t.Fatal(err)
	}
	if got.Number() != 2 || len(got.Entries()) != 3 {
		t.Errorf("number %d, %d entries", got.Number(), len(got.Entries()))
	}
	for serial, want := range map[int64]bool{7: true, 300: true, 9: true, 8: false, 1: false} {
		if got.Revoked(a.leaf(serial)) != want {
			t.Errorf("serial %d revoked: %v", serial, !want)
		}
	}
	if got.Revoked(newAuthority(t, "another").leaf(7)) {
		t.Error("the same serial number of another authority is revoked")
	}
	if none, err := Read(filepath.Join(t.TempDir(), "ca.crl"), a.cert); err != nil || none.Revoked(a.leaf(7)) {
		t.Errorf("an absent list: %v", err)
	}
	if _, _, err := l.Sign(a.cert, a.key, time.Now(), big.NewInt(0)); err == nil {
		t.Error("serial number 0 was revoked")
	}
}

// A list that is not whole, or not of the authority, is an error: an empty one would
// make revoked certificates good again.
func TestDamagedList(t *testing.T) {
	a := newAuthority(t, "kubernetes")
	_, good := a.sign(t, &List{}, 7)
	other := newAuthority(t, "kubernetes") // of the same name
	_, forged := other.sign(t, &List{}, 8)
	_, foreign := newAuthority(t, "another").sign(t, &List{}, 8)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"empty": {}, "half": good[:len(good)/2], "text": []byte("revoked: [7]"), "flipped": flipped, "twice": append(bytes.Clone(good), good...),
		"forged": forged, "of another authority": foreign, "certificate": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
	} {
		path := filepath.Join(t.TempDir(), "ca.crl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Read(path, a.cert); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	elsewhere, path := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "ca.crl")
	if err := errors.Join(os.WriteFile(elsewhere, good, 0o600), os.Symlink(elsewhere, path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, a.cert); err == nil {
		t.Error("a link was followed")
	}
}

// The list in force only grows, also by an older one.
func TestGuardOnlyGrows(t *testing.T) {
	a := newAuthority(t, "kubernetes")
	older, _ := a.sign(t, &List{}, 7)
	newer, _ := a.sign(t, older, 8)
	g := NewGuard(newer)
	if g.Add(older) || g.Add(&List{}) || g.Add(newer) {
		t.Error("an older list grew it")
	}
	other, _ := a.sign(t, older, 9)
	if !g.Add(other) {
		t.Error("another branch did not grow it")
	}
	for _, serial := range []int64{7, 8, 9} {
		if !g.List().Revoked(a.leaf(serial)) {
			t.Errorf("%d is good again", serial)
		}
	}
}

// Nothing beside a revoked certificate counts: no token, no other certificate, no
// way that would have been tried before.
func TestAuthenticator(t *testing.T) {
	a := newAuthority(t, "kubernetes")
	l, _ := a.sign(t, &List{}, 7)
	asked := 0
	h := NewGuard(l).Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		asked++
		return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, true, nil
	}))
	for _, tt := range []struct {
		name  string
		certs []*x509.Certificate
		want  bool
	}{
		{"none", nil, true},
		{"good", []*x509.Certificate{a.leaf(8)}, true},
		{"revoked", []*x509.Certificate{a.leaf(7)}, false},
		{"behind a good one", []*x509.Certificate{a.leaf(8), a.leaf(7)}, false},
		{"before a good one", []*x509.Certificate{a.leaf(7), a.leaf(8)}, false},
	} {
		before := asked
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("Authorization", "Bearer good")
		if tt.certs != nil {
			req.TLS = &tls.ConnectionState{PeerCertificates: tt.certs}
		}
		_, ok, err := h.AuthenticateRequest(req)
		if ok != tt.want || (err == nil) != tt.want || (asked > before) != tt.want {
			t.Errorf("%s: %v %v, asked %v", tt.name, ok, err, asked > before)
		}
		if revoked := new(RevokedError); err != nil && (!errors.As(err, &revoked) || !strings.Contains(err.Error(), `"admin" with serial number 7 has been revoked`)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	g := NewGuard(&List{})
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{SerialNumber: big.NewInt(7)}}}
	g.open.Store(req.RemoteAddr, &connection{guard: g})
	for b.Loop() {
		_ = g.Check(req)
	}
}
