package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
	// maxFile bounds what is read from one PEM file.
	maxFile = 1 << 20
)

// writeFile replaces path in one step: temporary file, fsync, rename, fsync of
// the directory.
func writeFile(path string, data []byte, mode os.FileMode) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err = tmp.Chmod(mode); err != nil {
		return err
	}
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

func readBlock(path, kind string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes, not a PEM file of this cluster", path, maxFile)
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

// readSecret reads a file that is for its owner alone. One that others may read
// is closed to them; a link, or a file of another user, is refused: who made it
// chooses the key.
func readSecret(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s: is a symbolic link; put the key itself there", path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a file; restore it from a backup", path)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() && owner != 0 {
		return nil, fmt.Errorf("%s: belongs to user %d, who could choose the key; give it to the kernel's user (chown %d)", path, owner, os.Geteuid())
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes, not a PEM file of this cluster", path, maxFile)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			return nil, fmt.Errorf("%s: others can read it (mode %04o), and that cannot be changed: %w", path, info.Mode().Perm(), err)
		}
	}
	return io.ReadAll(io.LimitReader(file, maxFile))
}

// makeDirectory makes a directory for keys, or closes the one that is there to others.
func makeDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pki: create directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("pki: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("pki: directory %s is open to others (mode %04o): %w", dir, info.Mode().Perm(), err)
		}
	}
	return nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := readSecret(path)
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
