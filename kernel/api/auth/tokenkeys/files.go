package tokenkeys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/util/keyutil"

	"pintle.dev/pintle/kernel/secretfile"
)

// The files of a directory.
const (
	SigningFile = "sa.key"
	NextFile    = "sa-next.key"
	FormerFile  = "sa.pub"
	RevokedFile = "sa-revoked.pub"
)

// Files are all of them.
var Files = []string{SigningFile, NextFile, FormerFile, RevokedFile}

// Read reads the keys of a directory.
func Read(dir string) (Set, error) {
	var s Set
	var err error
	if s.Signing, err = readPrivate(filepath.Join(dir, SigningFile)); err != nil {
		return Set{}, err
	}
	if s.Next, err = readPrivate(filepath.Join(dir, NextFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Set{}, fmt.Errorf("%w, or remove it: the rotation that it asks for is given up", err)
	}
	if s.Former, err = readPublic(filepath.Join(dir, FormerFile)); err != nil {
		return Set{}, fmt.Errorf("%w, or remove it: tokens of former keys are refused then", err)
	}
	if s.Revoked, err = readPublic(filepath.Join(dir, RevokedFile)); err != nil {
		return Set{}, fmt.Errorf("%w: without it, revoked keys would be good again", err)
	}
	return s.clean(), nil
}

// Write brings a directory from one set to another. Wherever it is cut off, the keys
// of every good token verify.
func Write(dir string, before, after Set) error {
	if !same(before.Revoked, after.Revoked) {
		if err := writePublic(filepath.Join(dir, RevokedFile), after.Revoked); err != nil {
			return err
		}
	}
	if !same(before.Former, after.Former) {
		if err := writePublic(filepath.Join(dir, FormerFile), after.Former); err != nil {
			return err
		}
	}
	if id(before.Signing) != id(after.Signing) {
		if err := WritePrivate(filepath.Join(dir, SigningFile), after.Signing); err != nil {
			return err
		}
	}
	if id(before.Next) == id(after.Next) {
		return nil
	}
	next := filepath.Join(dir, NextFile)
	if after.Next != nil {
		return WritePrivate(next, after.Next)
	}
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// New makes a key that signs.
func New() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, nil
}

// WritePrivate writes a key that signs.
func WritePrivate(path string, key *ecdsa.PrivateKey) error {
	data, err := EncodePrivate(key)
	if err != nil {
		return err
	}
	return secretfile.Write(path, data, 0o600)
}

// EncodePrivate gives a key that signs as PEM.
func EncodePrivate(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.PrivateKeyBlockType, Bytes: der}), nil
}

// ParsePrivate reads a key that signs.
func ParsePrivate(data []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("damaged: %w; restore the file from a backup", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("holds a %T, want an ECDSA key of P-256", parsed)
	}
	return key, nil
}

func readPrivate(path string) (*ecdsa.PrivateKey, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	key, err := ParsePrivate(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// EncodePublic gives keys as PEM, one block each.
func EncodePublic(keys []crypto.PublicKey) ([]byte, error) {
	var out []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode public key: %w", err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der})...)
	}
	return out, nil
}

// ParsePublic reads them. All that is there has to be keys: where upstream's reader
// stops at damage, a key would be lost.
func ParsePublic(data []byte) (keys []crypto.PublicKey, err error) {
	for len(bytes.TrimSpace(data)) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil || block.Type != keyutil.PublicKeyBlockType {
			return nil, fmt.Errorf("damaged: want PEM blocks %q and nothing else; restore the file from a backup", keyutil.PublicKeyBlockType)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("damaged public key: %w; restore the file from a backup", err)
		}
		keys = with(keys, key)
	}
	return keys, nil
}

func readPublic(path string) ([]crypto.PublicKey, error) {
	data, err := secretfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys, err := ParsePublic(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

func writePublic(path string, keys []crypto.PublicKey) error {
	data, err := EncodePublic(keys)
	if err != nil {
		return err
	}
	return secretfile.Write(path, data, 0o600)
}

// ReadConfigured reads a file of keys that verify, as kube-apiserver's
// --service-account-key-file: PEM of public or private keys, or certificates. Links
// are followed; whoever can write the file is to be root or the kernel's user.
func ReadConfigured(path string) ([]crypto.PublicKey, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	switch owner := info.Sys().(*syscall.Stat_t).Uid; {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a file", path)
	case int(owner) != os.Geteuid() && owner != 0:
		return nil, fmt.Errorf("%s: belongs to user %d, who could choose the keys; give it to the kernel's user (chown %d)", path, owner, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s: others can write it (mode %04o), and so choose the keys; chmod go-w it", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(file, secretfile.MaxSize))
	if err != nil {
		return nil, err
	}
	parsed, err := keyutil.ParsePublicKeysPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var keys []crypto.PublicKey
	for _, key := range parsed {
		keys = with(keys, key)
	}
	return keys, nil
}
