package revocation

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
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

	"pintle.dev/pintle/kernel/revocation/revocationtest"
)

// A list survives its file, in the order of the revocations, and its numbers grow.
func TestList(t *testing.T) {
	a := revocationtest.New(t, "kubernetes")
	l, _ := revocationtest.Sign(t, a, &List{}, 7, 300)
	l, data := revocationtest.Sign(t, a, l, 7, 9)
	path := filepath.Join(t.TempDir(), "ca.crl")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path, a.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if got.Number() != 2 || len(got.Entries()) != 3 {
		t.Errorf("number %d, %d entries", got.Number(), len(got.Entries()))
	}
	for serial, want := range map[int64]bool{7: true, 300: true, 9: true, 8: false, 1: false} {
		if got.Revoked(a.Leaf(serial)) != want {
			t.Errorf("serial %d revoked: %v", serial, !want)
		}
	}
	if got.Revoked(revocationtest.New(t, "another").Leaf(7)) {
		t.Error("the same serial number of another authority is revoked")
	}
	if none, err := Read(filepath.Join(t.TempDir(), "ca.crl"), a.Cert); err != nil || none.Revoked(a.Leaf(7)) {
		t.Errorf("an absent list: %v", err)
	}
	if _, _, err := l.Sign(a.Cert, a.Key, time.Now(), big.NewInt(0)); err == nil {
		t.Error("serial number 0 was revoked")
	}
}

// A list that is not whole, or not of the authority, is an error: an empty one would
// make revoked certificates good again.
func TestDamagedList(t *testing.T) {
	a := revocationtest.New(t, "kubernetes")
	_, good := revocationtest.Sign(t, a, &List{}, 7)
	other := revocationtest.New(t, "kubernetes") // of the same name
	_, forged := revocationtest.Sign(t, other, &List{}, 8)
	_, foreign := revocationtest.Sign(t, revocationtest.New(t, "another"), &List{}, 8)
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
		if l, err := Read(path, a.Cert); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	elsewhere, path := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "ca.crl")
	if err := errors.Join(os.WriteFile(elsewhere, good, 0o600), os.Symlink(elsewhere, path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, a.Cert); err == nil {
		t.Error("a link was followed")
	}
}

// The list in force only grows, also by an older one.
func TestGuardOnlyGrows(t *testing.T) {
	a := revocationtest.New(t, "kubernetes")
	older, _ := revocationtest.Sign(t, a, &List{}, 7)
	newer, _ := revocationtest.Sign(t, a, older, 8)
	g := NewGuard(newer)
	if g.Add(older) || g.Add(&List{}) || g.Add(newer) {
		t.Error("an older list grew it")
	}
	other, _ := revocationtest.Sign(t, a, older, 9)
	if !g.Add(other) {
		t.Error("another branch did not grow it")
	}
	for _, serial := range []int64{7, 8, 9} {
		if !g.List().Revoked(a.Leaf(serial)) {
			t.Errorf("%d is good again", serial)
		}
	}
}

// Nothing beside a revoked certificate counts: no token, no other certificate, no
// way that would have been tried before.
func TestAuthenticator(t *testing.T) {
	a := revocationtest.New(t, "kubernetes")
	l, _ := revocationtest.Sign(t, a, &List{}, 7)
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
		{"good", []*x509.Certificate{a.Leaf(8)}, true},
		{"revoked", []*x509.Certificate{a.Leaf(7)}, false},
		{"behind a good one", []*x509.Certificate{a.Leaf(8), a.Leaf(7)}, false},
		{"before a good one", []*x509.Certificate{a.Leaf(7), a.Leaf(8)}, false},
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
