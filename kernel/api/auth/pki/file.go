package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"pintle.dev/pintle/kernel/secretfile"
)

const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

func readBlock(path, kind string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > secretfile.MaxSize {
		return nil, fmt.Errorf("%s: larger than %d bytes, not a PEM file of this cluster", path, secretfile.MaxSize)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return findBlock(path, data, kind)
}

func findBlock(path string, data []byte, kind string) ([]byte, error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, fmt.Errorf("%s: damaged: no PEM block %q in it; restore the file from a backup", path, kind)
		}
		if block.Type == kind {
			return block.Bytes, nil
		}
		data = rest
	}
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	der, err := findBlock(path, data, blockKey)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: damaged private key: %w; restore the file from a backup", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: holds a %T, want an ECDSA key", path, parsed)
	}
	return key, nil
}

func readCert(path string) (*x509.Certificate, error) {
	der, err := readBlock(path, blockCertificate)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: damaged certificate: %w; restore the file from a backup", path, err)
	}
	return cert, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
