package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/seal"
)

const (
	// minClusterKey is the least a cluster key may have, in bytes: the key is
	// used as it is, so it must not be a word that can be guessed.
	minClusterKey = 32
	maxClusterKey = 64 << 10
)

// authorityRecord is what etcd holds of the cluster's keys.
type authorityRecord struct {
	CA    string `json:"ca"`    // fingerprints, see pki.Authority
	Token string `json:"token"` //
	// Sealed is the authority, encrypted by the cluster key: salt, nonce, AES-256-GCM. Empty where the kernels get
	// it by hand.
	Sealed []byte `json:"sealed,omitempty"`
}

// ReadClusterKey reads the secret that the kernels of one cluster share.
func ReadClusterKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("store.etcd.clusterKeyFile: %w; make one with: head -c 32 /dev/urandom > FILE, mode 0600, and copy it to each kernel", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("store.etcd.clusterKeyFile: %s is not a file", file)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("store.etcd.clusterKeyFile: %s can be read by others (mode %04o); set its mode to 0600", file, info.Mode().Perm())
	case info.Size() < minClusterKey || info.Size() > maxClusterKey:
		return nil, fmt.Errorf("store.etcd.clusterKeyFile: %s has %d bytes; want %d to %d, at random", file, info.Size(), minClusterKey, maxClusterKey)
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("store.etcd.clusterKeyFile: %w", err)
	}
	return key, nil
}

// ShareAuthority brings the directory of keys and etcd to one authority. The first kernel on an etcd makes it and
// records its fingerprints, with clusterKey also the authority itself, sealed. A kernel without one takes the sealed one;
// a kernel with another is refused, since it would serve the cluster with keys that nobody there knows.
func (b *Backend) ShareAuthority(ctx context.Context, dir string, clusterKey []byte) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	had, err := pki.HasAuthority(dir)
	if err != nil {
		return fmt.Errorf("cluster keys: %w", err)
	}
	record, revision, err := b.readAuthority(ctx)
	if err != nil {
		return err
	}
	if record == nil {
		own, err := pki.EnsureAuthority(dir)
		if err != nil {
			return fmt.Errorf("cluster keys: %w", err)
		}
		won, err := b.writeAuthority(ctx, own, clusterKey, 0)
		if err != nil || won {
			return err
		}
		// Another kernel was first; what was made here a moment ago counts for nothing.
		if record, revision, err = b.readAuthority(ctx); err != nil {
			return err
		}
		if record == nil {
			return errors.New("cluster keys: they were written to etcd and removed again at the same time; start again")
		}
	}
	if !had {
		return b.adoptAuthority(record, dir, clusterKey)
	}
	own, err := pki.EnsureAuthority(dir)
	if err != nil {
		return fmt.Errorf("cluster keys: %w", err)
	}
	ca, token, err := own.Fingerprints()
	if err != nil {
		return fmt.Errorf("cluster keys: %w", err)
	}
	which := ""
	switch {
	case ca != record.CA:
		which = "CA"
	case token != record.Token:
		// It may have been rotated since.
		same, err := credentials.Belongs(ctx, b, dir, record.Token)
		if err != nil {
			return fmt.Errorf("cluster keys: %w", err)
		}
		if !same {
			which = "key of service-account tokens"
		}
	}
	if which != "" {
		return fmt.Errorf("cluster keys: %s has another %s than the cluster in etcd below %s; "+
			"start this kernel with an empty data directory, or with ca.crt, ca.key and sa.key of a kernel of that cluster", dir, which, b.config.Prefix)
	}
	if len(clusterKey) == 0 {
		return nil
	}
	if len(record.Sealed) > 0 {
		if _, err := b.unseal(record.Sealed, clusterKey); err == nil {
			return nil
		}
		b.log.Warn("the cluster's keys in etcd are sealed by another cluster key and are sealed again by this kernel's; give the other kernels this one")
	}
	_, err = b.writeAuthority(ctx, own, clusterKey, revision)
	return err
}

// adoptAuthority takes what another kernel has recorded.
func (b *Backend) adoptAuthority(record *authorityRecord, dir string, clusterKey []byte) error {
	switch {
	case len(clusterKey) == 0:
		return fmt.Errorf("cluster keys: etcd holds a cluster below %s already, and %s has none of its keys; "+
			"copy ca.crt, ca.key and sa.key there from a kernel of that cluster, or set store.etcd.clusterKeyFile on each kernel", b.config.Prefix, dir)
	case len(record.Sealed) == 0:
		return fmt.Errorf("cluster keys: the kernel that made the cluster in etcd below %s has no store.etcd.clusterKeyFile, so its keys are not in etcd; "+
			"set it there and start that kernel again, or copy ca.crt, ca.key and sa.key from it to %s", b.config.Prefix, dir)
	}
	authority, err := b.unseal(record.Sealed, clusterKey)
	if err != nil {
		return fmt.Errorf("cluster keys: %w", err)
	}
	if ca, token, err := authority.Fingerprints(); err != nil || ca != record.CA || token != record.Token {
		return fmt.Errorf("cluster keys: those sealed in etcd are not those recorded beside them; restore %s", b.key(authorityKey))
	}
	if err := pki.WriteAuthority(dir, authority); err != nil {
		return fmt.Errorf("cluster keys: %w", err)
	}
	b.log.Info("the cluster's keys were taken from etcd", "directory", dir)
	return nil
}

// authorityKey is where the record lies, below the prefix.
const authorityKey = "clusterauthority"

func (b *Backend) readAuthority(ctx context.Context) (*authorityRecord, int64, error) {
	key := b.key(authorityKey)
	out, err := b.client.Client.Get(ctx, key)
	if err != nil {
		return nil, 0, fmt.Errorf("cluster keys: read %s: %w", key, err)
	}
	if len(out.Kvs) == 0 {
		return nil, 0, nil
	}
	record := &authorityRecord{}
	if err := json.Unmarshal(out.Kvs[0].Value, record); err != nil || record.CA == "" || record.Token == "" {
		return nil, 0, fmt.Errorf("cluster keys: %s in etcd is damaged: %w; restore it, or delete it so that a kernel of the cluster records its keys anew", key, err)
	}
	return record, out.Kvs[0].ModRevision, nil
}

// writeAuthority records an authority over what is there at a revision (0: nothing); false means that something else is.
func (b *Backend) writeAuthority(ctx context.Context, a pki.Authority, clusterKey []byte, revision int64) (bool, error) {
	key := b.key(authorityKey)
	record := authorityRecord{}
	var err error
	if record.CA, record.Token, err = a.Fingerprints(); err != nil {
		return false, fmt.Errorf("cluster keys: %w", err)
	}
	if len(clusterKey) > 0 {
		if record.Sealed, err = b.seal(a, clusterKey); err != nil {
			return false, fmt.Errorf("cluster keys: %w", err)
		}
	}
	data, err := json.Marshal(record)
	if err != nil {
		return false, fmt.Errorf("cluster keys: %w", err)
	}
	out, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, string(data))).Commit()
	if err != nil {
		return false, fmt.Errorf("cluster keys: write %s: %w", key, err)
	}
	return out.Succeeded, nil
}

func (b *Backend) purpose() string { return "pintle cluster authority " + b.config.Prefix }

func (b *Backend) seal(a pki.Authority, clusterKey []byte) ([]byte, error) {
	plain, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return seal.Seal(clusterKey, b.purpose(), b.key(authorityKey), plain)
}

// errWrongClusterKey is all that can be said of a seal that does not open.
var errWrongClusterKey = errors.New("the keys in etcd are sealed by another cluster key than that of store.etcd.clusterKeyFile; use the file of the kernel that made the cluster")

func (b *Backend) unseal(sealed, clusterKey []byte) (pki.Authority, error) {
	var a pki.Authority
	plain, err := seal.Open(clusterKey, b.purpose(), b.key(authorityKey), sealed)
	if errors.Is(err, seal.ErrOpen) {
		return a, errWrongClusterKey
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(plain, &a); err != nil {
		return a, fmt.Errorf("the keys sealed in etcd are damaged: %w", err)
	}
	return a, nil
}
