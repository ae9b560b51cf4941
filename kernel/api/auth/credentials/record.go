package credentials

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/seal"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
	"pintle.dev/pintle/kernel/revocation"
)

// Shared is where the kernels of one cluster keep a record.
type Shared interface {
	// ReadCredentials gives the record and its revision; 0 where there is none.
	ReadCredentials(ctx context.Context) (record []byte, revision int64, err error)
	// WriteCredentials writes it over that of a revision; false: there is another.
	WriteCredentials(ctx context.Context, record []byte, revision int64) (bool, error)
}

const (
	purpose = "pintle cluster credentials"
	place   = "record"
)

// record is what the kernels share, as it is sealed.
type record struct {
	Signing     string `json:"signing"`
	Next        string `json:"next,omitempty"`
	Former      string `json:"former,omitempty"`
	Revoked     string `json:"revoked,omitempty"`
	Revocations string `json:"revocations,omitempty"` // the list of certificates, as PEM
}

// shared is what it says.
type shared struct {
	keys         tokenkeys.Set
	revocations  *revocation.List
	revocationsP []byte // as PEM
}

func sealRecord(p *pki.PKI, s shared) ([]byte, error) {
	var r record
	signing, err := tokenkeys.EncodePrivate(s.keys.Signing)
	if err != nil {
		return nil, err
	}
	r.Signing, r.Revocations = string(signing), string(s.revocationsP)
	if s.keys.Next != nil {
		next, err := tokenkeys.EncodePrivate(s.keys.Next)
		if err != nil {
			return nil, err
		}
		r.Next = string(next)
	}
	former, err := tokenkeys.EncodePublic(s.keys.Former)
	if err != nil {
		return nil, err
	}
	revoked, err := tokenkeys.EncodePublic(s.keys.Revoked)
	if err != nil {
		return nil, err
	}
	r.Former, r.Revoked = string(former), string(revoked)
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	secret, err := p.Secret()
	if err != nil {
		return nil, err
	}
	return seal.Seal(secret, purpose, place, plain)
}

func openRecord(p *pki.PKI, sealed []byte) (s shared, err error) {
	secret, err := p.Secret()
	if err != nil {
		return s, err
	}
	plain, err := seal.Open(secret, purpose, place, sealed)
	if err != nil {
		return s, fmt.Errorf("the cluster's credentials in etcd: %w", err)
	}
	var r record
	if err := json.Unmarshal(plain, &r); err != nil {
		return s, fmt.Errorf("the cluster's credentials in etcd: %w", err)
	}
	s.keys.Signing, err = tokenkeys.ParsePrivate([]byte(r.Signing))
	if err == nil && r.Next != "" {
		s.keys.Next, err = tokenkeys.ParsePrivate([]byte(r.Next))
	}
	if err == nil {
		s.keys.Former, err = tokenkeys.ParsePublic([]byte(r.Former))
	}
	if err == nil {
		s.keys.Revoked, err = tokenkeys.ParsePublic([]byte(r.Revoked))
	}
	s.revocations = &revocation.List{}
	if err == nil && r.Revocations != "" {
		s.revocationsP = []byte(r.Revocations)
		s.revocations, err = revocation.Parse(s.revocationsP, p.CA())
	}
	if err != nil {
		return s, fmt.Errorf("the cluster's credentials in etcd: %w", err)
	}
	return s, nil
}

// Belongs says whether the token keys of a directory are those of a cluster, of which
// another place recorded one key's fingerprint and the kernels share a record.
func Belongs(ctx context.Context, s Shared, dir, fingerprint string) (bool, error) {
	own, err := tokenkeys.Read(dir)
	if err != nil {
		return false, err
	}
	for _, key := range own.All() {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return false, err
		}
		if sum := sha256.Sum256(der); hex.EncodeToString(sum[:]) == fingerprint {
			return true, nil
		}
	}
	data, _, err := s.ReadCredentials(ctx)
	if err != nil || data == nil {
		return false, err
	}
	p, err := pki.OpenAuthority(dir)
	if err != nil {
		return false, err
	}
	known, err := openRecord(p, data)
	if err != nil {
		return false, err
	}
	return linked(own, known.keys), nil
}

// linked says whether two sets are of one cluster: one knows the other's key.
func linked(own, shared tokenkeys.Set) bool {
	return shared.Knows(&own.Signing.PublicKey) || own.Knows(&shared.Signing.PublicKey)
}

var errForeign = errors.New("sa.key is another key than those of the cluster's tokens, so it is not used: to change the key, take back the former file and run pintle pki rotate sa")
