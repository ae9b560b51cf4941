package store

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
)

const (
	// plainKey is the word for no encryption in a key file, as upstream's provider that does not encrypt is called.
	plainKey = "identity"
	// maxKeyFile bounds a key file, in bytes.
	maxKeyFile = 64 << 10
	// blockCacheBytes and indexCacheBytes hold decrypted blocks and indices of tables, which are else decrypted for each
	// read; Badger wants both where there is a key.
	blockCacheBytes, indexCacheBytes = 16 << 20, 16 << 20
)

// KeyError says that the database cannot be read with the keys given. Nothing was changed.
type KeyError struct {
	Dir    string
	Reason string
}

// Error names the directory and what to do.
func (e *KeyError) Error() string {
	return fmt.Sprintf("opening the database in %s: %s", e.Dir, e.Reason)
}

// ReadKeys reads the keys of a key file: one a line, base64 of 16, 24 or 32 random bytes (AES-128, -192, -256), or the
// word identity for none. The first is the one to encrypt with; the others are former ones, by which the database may
// still be encrypted. A line that begins with # is a comment. The file must not be readable by others.
func ReadKeys(file string) ([][]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("store.encryptionKeyFile: %w; make one with: head -c 32 /dev/urandom | base64 > FILE, mode 0600", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("store.encryptionKeyFile: %s is not a file", file)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("store.encryptionKeyFile: %s can be read by others (mode %04o); set its mode to 0600", file, info.Mode().Perm())
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("store.encryptionKeyFile: %s is larger than %d bytes", file, maxKeyFile)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("store.encryptionKeyFile: %w", err)
	}
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if line == plainKey {
			keys = append(keys, nil)
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			// The line itself is a secret, or near to one.
			return nil, fmt.Errorf("store.encryptionKeyFile: %s:%d: is neither base64 of 16, 24 or 32 bytes nor the word %s", file, n, plainKey)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("store.encryptionKeyFile: %s: %w", file, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("store.encryptionKeyFile: %s has no key; make one with: head -c 32 /dev/urandom | base64", file)
	}
	return keys, nil
}

// key is the one to encrypt with; nil: nothing is.
func (c Config) key() []byte {
	if len(c.Keys) == 0 {
		return nil
	}
	return c.Keys[0]
}

// unlock finds which of the keys the database was encrypted with and, when that is not the first, encrypts Badger's own
// keys by the first, in one step: files written from then on are the new key's, those before stay readable until
// compaction has written them anew. Error: *KeyError.
func (c Config) unlock() error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("reading data directory %s: %w", c.Dir, err)
	}
	registry, database := false, false
	for _, e := range entries {
		registry = registry || e.Name() == badger.KeyRegistryFileName
		database = database || e.Name() == badger.ManifestFilename
	}
	if !registry {
		if database && c.key() != nil {
			return &KeyError{c.Dir, badger.KeyRegistryFileName + " is missing, without which nothing encrypted can be read; restore it from a backup"}
		}
		return nil
	}
	keys := c.Keys
	if len(keys) == 0 {
		keys = [][]byte{nil}
	}
	for i, key := range keys {
		known, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: c.Dir, ReadOnly: true, EncryptionKey: key})
		if errors.Is(err, badger.ErrEncryptionKeyMismatch) {
			continue
		}
		if err != nil {
			return &CorruptError{Dir: c.Dir, File: badger.KeyRegistryFileName, Err: err}
		}
		if i == 0 {
			return nil
		}
		if keys[0] == nil {
			// Badger would not find the keys of what is encrypted already.
			return &KeyError{c.Dir, "it is encrypted, and cannot be decrypted in place; back it up and restore the backup into an empty directory without store.encryptionKeyFile"}
		}
		if err := badger.WriteKeyRegistry(known, badger.KeyRegistryOptions{Dir: c.Dir, EncryptionKey: keys[0]}); err != nil {
			return fmt.Errorf("changing the encryption key of %s: %w", filepath.Join(c.Dir, badger.KeyRegistryFileName), err)
		}
		was := "a former key"
		if key == nil {
			was = "no key"
		}
		c.Logger.Info("the database has a new encryption key; what is written from now on is encrypted by it", "data_directory", c.Dir, "was", was)
		return nil
	}
	if len(c.Keys) == 0 {
		return &KeyError{c.Dir, "it is encrypted; set store.encryptionKeyFile to the file with its key. Nothing was changed"}
	}
	if plain, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: c.Dir, ReadOnly: true}); err == nil && plain != nil {
		return &KeyError{c.Dir, "it is not encrypted; to encrypt what is written from now on, add the word " + plainKey + " as the last line of store.encryptionKeyFile. Nothing was changed"}
	}
	return &KeyError{c.Dir, "none of the keys in store.encryptionKeyFile is the one that it was encrypted with; add that one as a further line. Nothing was changed"}
}

// checkKeys refuses keys that Badger cannot use.
func (c Config) checkKeys() error {
	for i, key := range c.Keys {
		switch len(key) {
		case 0, 16, 24, 32:
		default:
			return fmt.Errorf("store: key %d has %d bytes; want 16, 24 or 32", i+1, len(key))
		}
		for _, other := range c.Keys[:i] {
			if subtle.ConstantTimeCompare(key, other) == 1 {
				return fmt.Errorf("store: key %d is given twice", i+1)
			}
		}
	}
	return nil
}
