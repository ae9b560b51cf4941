package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	jose "github.com/go-jose/go-jose/v4"
)

// algorithm is what tokens are signed with here.
const algorithm = jose.ES256

// algorithms are those of the keys that verify, which may be another cluster's.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.RS256}

// leastRSA is the shortest RSA key that is taken, in bits.
const leastRSA = 2048

// Keys are the key that signs and those that verify. They are exchanged while
// issuers, authenticators and the discovery documents use them. Safe for
// concurrent use.
type Keys struct{ now atomic.Pointer[keySet] }

// keySet does not change.
type keySet struct {
	signer jose.Signer // nil: nothing is signed
	verify map[string]jose.JSONWebKey
	ids    []string
	jwks   []byte
	algs   []string
}

var errNoSigner = errors.New("no key signs service account tokens: the one that did was revoked; rotate it")

// Set exchanges the keys. The one that signs verifies as well; nil signs nothing.
func (k *Keys) Set(signing *ecdsa.PrivateKey, verifying ...crypto.PublicKey) error {
	next := &keySet{verify: map[string]jose.JSONWebKey{}}
	if signing != nil {
		if signing.Curve != elliptic.P256() {
			return errors.New("token keys: want an ecdsa p-256 key that signs")
		}
		id, err := KeyID(&signing.PublicKey)
		if err != nil {
			return err
		}
		if next.signer, err = jose.NewSigner(jose.SigningKey{
			Algorithm: algorithm,
			Key:       jose.JSONWebKey{Algorithm: string(algorithm), Key: signing, KeyID: id, Use: "sig"},
		}, nil); err != nil {
			return fmt.Errorf("token keys: %w", err)
		}
		verifying = append([]crypto.PublicKey{&signing.PublicKey}, verifying...)
	}
	var set jose.JSONWebKeySet
	for _, key := range verifying {
		alg, err := algorithmOf(key)
		if err != nil {
			return err
		}
		id, err := KeyID(key)
		if err != nil {
			return err
		}
		if _, ok := next.verify[id]; ok {
			continue
		}
		jwk := jose.JSONWebKey{Algorithm: string(alg), Key: key, KeyID: id, Use: "sig"}
		next.verify[id], next.ids, set.Keys = jwk, append(next.ids, id), append(set.Keys, jwk)
		if !slices.Contains(next.algs, string(alg)) {
			next.algs = append(next.algs, string(alg))
		}
	}
	if len(next.ids) == 0 {
		return errors.New("token keys: no keys provided for validating keyset")
	}
	var err error
	if next.jwks, err = json.Marshal(set); err != nil {
		return fmt.Errorf("token keys: %w", err)
	}
	k.now.Store(next)
	return nil
}

// IDs are those of the keys that verify; the one that signs is the first.
func (k *Keys) IDs() []string {
	if now := k.now.Load(); now != nil {
		return slices.Clone(now.ids)
	}
	return nil
}

func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", errors.New("token keys: an ecdsa key of an unknown curve: want P-256, P-384 or P-521")
	case *rsa.PublicKey:
		if key.N.BitLen() < leastRSA {
			return "", fmt.Errorf("token keys: an RSA key of %d bits: want at least %d", key.N.BitLen(), leastRSA)
		}
		return jose.RS256, nil
	}
	return "", fmt.Errorf("token keys: a %T: want an ecdsa or RSA key", key)
}

// KeyID is the unpadded base64url form of the SHA-256 of the key's DER.
func KeyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
