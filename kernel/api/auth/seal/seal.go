// Package seal encrypts what kernels hand each other through etcd, by a secret that
// they share: AES-256-GCM with a key of HKDF-SHA256, bound to a purpose and to the
// place where it lies, so that nobody puts one record in the place of another.
//
// It must not import anything of the kernel.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

const saltSize = 32

// ErrOpen is all that can be said of a seal that does not open.
var ErrOpen = errors.New("it was sealed by another secret, for another place, or is damaged")

func sealer(secret, salt []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, salt, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal encrypts: salt, nonce, and the text with its tag.
func Seal(secret []byte, purpose, place string, plain []byte) ([]byte, error) {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	aead, err := sealer(secret, salt, purpose)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return aead.Seal(append(salt, nonce...), nonce, plain, []byte(place)), nil
}

// Open decrypts what Seal gave for the same secret, purpose and place.
func Open(secret []byte, purpose, place string, sealed []byte) ([]byte, error) {
	if len(sealed) < saltSize {
		return nil, ErrOpen
	}
	aead, err := sealer(secret, sealed[:saltSize], purpose)
	if err != nil {
		return nil, err
	}
	sealed = sealed[saltSize:]
	if len(sealed) < aead.NonceSize() {
		return nil, ErrOpen
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(place))
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}
