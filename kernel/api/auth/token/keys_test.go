package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// After a rotation the new key signs and the former verifies, until it is removed;
// the documents follow. 100 tokens are in use meanwhile.
func TestRotation(t *testing.T) {
	f := newFixture(t)
	next := newKey(t, elliptic.P256())
	issue := func(n int) (out []string) {
		for range n {
			compact, _, err := f.issuer.Issue(f.request(Binding{}))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, compact)
		}
		return out
	}
	good := func(compact string) error {
		_, ok, err := f.auth.AuthenticateToken(context.Background(), compact)
		if err == nil && !ok {
			t.Error("not its concern")
		}
		return err
	}
	discovery, err := NewDiscovery(issuerURL, "https://192.0.2.7"+KeysPath, f.keys)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() (ids []string) {
		w := httptest.NewRecorder()
		discovery.Keys(w, httptest.NewRequest("GET", KeysPath, nil))
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil {
			t.Fatal(err)
		}
		for _, k := range set.Keys {
			ids = append(ids, k.KeyID)
		}
		return ids
	}
	former := issue(100)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, compact := range former {
		wg.Go(func() {
			for {
				if err := good(compact); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 20 { // before, during and after
		if err := f.keys.Set(f.key, &next.PublicKey); err != nil {
			t.Fatal(err)
		}
		if err := f.keys.Set(next, &f.key.PublicKey); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if ids := f.keys.IDs(); len(ids) != 2 || strings.Join(shown(), " ") != strings.Join(ids, " ") {
		t.Errorf("shown %q, in force %q", shown(), ids)
	}
	later := issue(1)[0]
	if err := good(later); err != nil {
		t.Error(err)
	}
	if err := f.keys.Set(next); err != nil {
		t.Fatal(err)
	}
	if err := good(former[0]); err == nil || err.Error() != "invalid signature, no keys found" {
		t.Errorf("a token of a removed key: %v", err)
	}
	if err := good(later); err != nil || len(shown()) != 1 {
		t.Errorf("%v, shown %q", err, shown())
	}
	if err := f.keys.Set(nil, &next.PublicKey); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.issuer.Issue(f.request(Binding{})); err != errNoSigner {
		t.Errorf("signed without a key: %v", err)
	}
}

// Keys of another cluster verify by the algorithm that is theirs, and by no other.
func TestKeysOfOthers(t *testing.T) {
	f := newFixture(t)
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384 := newKey(t, elliptic.P384())
	if err := f.keys.Set(f.key, &big.PublicKey, &p384.PublicKey, &f.key.PublicKey); err != nil || len(f.keys.IDs()) != 3 {
		t.Fatal(err, f.keys.IDs())
	}
	sign := func(alg jose.SignatureAlgorithm, key any, id string) string {
		options := &jose.SignerOptions{}
		if id != "" {
			options = options.WithHeader("kid", id)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
		if err != nil {
			t.Fatal(err)
		}
		account, _ := f.objects.GetServiceAccount(t.Context(), "ns", "app")
		compact, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: issuerURL, Audience: jwt.Audience{issuerURL}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).
			Claims(privateClaims{kubernetesClaims{Namespace: "ns", ServiceAccount: reference{"app", string(account.UID)}}}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	id := func(key any) string {
		id, err := KeyID(key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	stranger := newKey(t, elliptic.P256())
	for _, tt := range []struct {
		name    string
		compact string
		ok      bool
	}{
		{"RSA", sign(jose.RS256, big, id(&big.PublicKey)), true},
		{"RSA, no key named", sign(jose.RS256, big, ""), true},
		{"P-384", sign(jose.ES384, p384, id(&p384.PublicKey)), true},
		{"RSA by another algorithm", sign(jose.RS512, big, id(&big.PublicKey)), false},
		{"RSA by PSS", sign(jose.PS256, big, ""), false},
		{"the public key as a shared secret", sign(jose.HS256, []byte(id(&big.PublicKey)), id(&big.PublicKey)), false},
		{"a stranger's", sign(jose.ES256, stranger, id(&stranger.PublicKey)), false},
		{"a stranger's under a known name", sign(jose.ES256, stranger, id(&f.key.PublicKey)), false},
		{"a stranger's without a name", sign(jose.ES256, stranger, ""), false},
		{"one key under the name of another", sign(jose.RS256, big, id(&p384.PublicKey)), false},
	} {
		_, ok, err := f.auth.AuthenticateToken(t.Context(), tt.compact)
		if ok != tt.ok {
			t.Errorf("%s: accepted %v, %v", tt.name, ok, err)
		}
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("this build makes no short RSA keys:", err)
	}
	before := f.keys.IDs()
	if err := f.keys.Set(f.key, &short.PublicKey); err == nil || !strings.Contains(err.Error(), "1024 bits") {
		t.Errorf("a short key: %v", err)
	}
	if len(f.keys.IDs()) != len(before) {
		t.Error("keys that were refused are in force")
	}
}
