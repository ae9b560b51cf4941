package pki

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pintle.dev/pintle/kernel/secretfile"
)

// Authority is what all API servers of one cluster have to share: the CA and
// the key that signs service-account tokens, as PEM.
type Authority struct {
	CACert, CAKey, TokenKey []byte
}

// authorityFiles are the files of a directory that hold an Authority.
var authorityFiles = []struct {
	name string
	mode os.FileMode
	part func(*Authority) *[]byte
}{
	// Keys come first: a certificate alone is an error to Open, a key alone is not.
	{"ca.key", 0o600, func(a *Authority) *[]byte { return &a.CAKey }},
	{"sa.key", 0o600, func(a *Authority) *[]byte { return &a.TokenKey }},
	{"ca.crt", 0o644, func(a *Authority) *[]byte { return &a.CACert }},
}

// HasAuthority reports whether the directory holds any part of an authority.
func HasAuthority(dir string) (bool, error) {
	for _, f := range authorityFiles {
		if have, err := exists(filepath.Join(dir, f.name)); have || err != nil {
			return have, err
		}
	}
	return false, nil
}

// EnsureAuthority returns the directory's authority, and makes what it lacks.
func EnsureAuthority(dir string) (Authority, error) {
	if err := secretfile.MakeDirectory(dir); err != nil {
		return Authority{}, fmt.Errorf("pki: %w", err)
	}
	p := &PKI{cfg: Config{Dir: dir, Now: time.Now}}
	if err := p.loadCA(); err != nil {
		return Authority{}, fmt.Errorf("pki: cluster CA: %w", err)
	}
	if _, err := p.loadTokenKey(); err != nil {
		return Authority{}, fmt.Errorf("pki: service account key: %w", err)
	}
	var a Authority
	for _, f := range authorityFiles {
		data, err := os.ReadFile(filepath.Join(dir, f.name))
		if err != nil {
			return Authority{}, fmt.Errorf("pki: %w", err)
		}
		*f.part(&a) = data
	}
	return a, nil
}

// WriteAuthority puts an authority into the directory, over what is there.
func WriteAuthority(dir string, a Authority) error {
	if err := a.check(); err != nil {
		return err
	}
	if err := secretfile.MakeDirectory(dir); err != nil {
		return fmt.Errorf("pki: %w", err)
	}
	for _, f := range authorityFiles {
		if err := secretfile.Write(filepath.Join(dir, f.name), *f.part(&a), f.mode); err != nil {
			return fmt.Errorf("pki: %w", err)
		}
	}
	return nil
}

// Fingerprints are the SHA-256 of the CA's certificate and of the public part
// of the token key; they tell authorities apart and give nothing away.
func (a Authority) Fingerprints() (ca, token string, err error) {
	block, _ := pem.Decode(a.CACert)
	if block == nil {
		return "", "", errors.New("pki: no certificate in the authority")
	}
	key, err := a.tokenKey()
	if err != nil {
		return "", "", err
	}
	public, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", "", fmt.Errorf("pki: %w", err)
	}
	digest := func(b []byte) string {
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:])
	}
	return digest(block.Bytes), digest(public), nil
}

func (a Authority) tokenKey() (any, error) {
	block, _ := pem.Decode(a.TokenKey)
	if block == nil {
		return nil, errors.New("pki: no token key in the authority")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("pki: token key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if ok {
		return signer.Public(), nil
	}
	return nil, fmt.Errorf("pki: token key: unexpected %T", parsed)
}

func (a Authority) check() error {
	for _, f := range authorityFiles {
		if block, rest := pem.Decode(*f.part(&a)); block == nil || len(bytes.TrimSpace(rest)) > 0 {
			return fmt.Errorf("pki: %s of the authority is not one PEM block", f.name)
		}
	}
	return nil
}
