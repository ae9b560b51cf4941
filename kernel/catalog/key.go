package catalog

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// PEM types of cosign's private keys; the first is what it writes today.
const (
	pemSigstore = "ENCRYPTED SIGSTORE PRIVATE KEY"
	pemCosign   = "ENCRYPTED COSIGN PRIVATE KEY"
	pemPublic   = "PUBLIC KEY"

	maxKeyBytes = 64 << 10
)

// ErrPassword says that a private key was not opened by the password given.
var ErrPassword = errors.New("wrong password")

// PublicKey is one that signatures are checked by.
type PublicKey struct {
	// ID is sha256: and the digest of the key in its PKIX form.
	ID   string
	File string // for messages
	key  crypto.PublicKey
}

// PrivateKey signs.
type PrivateKey struct {
	ID  string
	key crypto.Signer
}

// GenerateKey makes a pair of keys as cosign does: ECDSA P-256, the private
// one encrypted by the password.
func GenerateKey(password []byte) (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	sealed, err := encrypted.Encrypt(plain, password)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt the key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemSigstore, Bytes: sealed}), pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}), nil
}

// ReadPrivateKey reads a private key of cosign. An error that wraps
// ErrPassword says that the password was another.
func ReadPrivateKey(path string, password func() ([]byte, error)) (*PrivateKey, error) {
	data, err := readBounded(path, maxKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemSigstore && block.Type != pemCosign {
		return nil, fmt.Errorf("private key %s: want a PEM block %s; make one with pintle plugin keygen or cosign generate-key-pair", path, pemSigstore)
	}
	word, err := password()
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w", path, err)
	}
	plain, err := encrypted.Decrypt(block.Bytes, word)
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w, or damaged: %w", path, ErrPassword, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("private key %s: %T; want ECDSA on P-256, which cosign makes unless told otherwise", path, parsed)
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w", path, err)
	}
	return &PrivateKey{ID: id, key: key}, nil
}

func (k *PrivateKey) sign(data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return k.key.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// ReadPublicKey reads a public key in PEM.
func ReadPublicKey(path string) (*PublicKey, error) {
	data, err := readBounded(path, maxKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != pemPublic || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("public key %s: want one PEM block %s, such as cosign.pub", path, pemPublic)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", path, err)
	}
	switch key.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("public key %s: %T; want ECDSA, RSA or Ed25519", path, key)
	}
	id, err := keyID(key)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", path, err)
	}
	return &PublicKey{ID: id, File: path, key: key}, nil
}

func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// verifies reports whether sig is this key's over data, in one of the ways
// that cosign signs by a key of this kind.
func (k *PublicKey) verifies(data, sig []byte) bool {
	sum := sha256.Sum256(data)
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(key, sum[:], sig) {
			return true
		}
		switch key.Curve {
		case elliptic.P384():
			sum := sha512.Sum384(data)
			return ecdsa.VerifyASN1(key, sum[:], sig)
		case elliptic.P521():
			sum := sha512.Sum512(data)
			return ecdsa.VerifyASN1(key, sum[:], sig)
		}
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig) == nil
	case ed25519.PublicKey:
		if ed25519.Verify(key, data, sig) {
			return true
		}
		sum := sha512.Sum512(data)
		return ed25519.VerifyWithOptions(key, sum[:], sig, &ed25519.Options{Hash: crypto.SHA512}) == nil
	}
	return false
}

// readBounded reads a small file.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return data, err
}
