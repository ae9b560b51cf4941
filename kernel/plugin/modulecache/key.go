package modulecache

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const keySize = sha256.Size

// readKey reads the key, or makes it. Of two processes that make it at the same
// time one does, and both have it.
func readKey(path string) ([]byte, error) {
	key, err := existingKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	key = make([]byte, keySize)
	if _, err = rand.Read(key); err == nil {
		_, err = f.Write(key)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return existingKey(path)
}

func existingKey(path string) ([]byte, error) {
	f, err := openOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	const remove = "remove it, and modules are compiled again"
	if err != nil {
		return nil, fmt.Errorf("key %s: %w; %s", path, err, remove)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key %s: others can read it (mode %04o); %s", path, info.Mode().Perm(), remove)
	}
	key, err := io.ReadAll(io.LimitReader(f, keySize+1))
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("key %s: want %d bytes; %s", path, keySize, remove)
	}
	return key, nil
}
