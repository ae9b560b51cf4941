package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"pintle.dev/pintle/kernel/api/auth/credentials"
)

// credentialsKey is where the kernels share the keys of tokens and what was revoked,
// below the prefix.
const credentialsKey = "clustercredentials"

var _ credentials.Shared = (*Backend)(nil)

// ReadCredentials gives the record that the kernels share, and its revision; 0 where there is none.
func (b *Backend) ReadCredentials(ctx context.Context) ([]byte, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	key := b.key(credentialsKey)
	out, err := b.client.Client.Get(ctx, key)
	if err != nil {
		return nil, 0, fmt.Errorf("cluster credentials: read %s: %w", key, err)
	}
	if len(out.Kvs) == 0 {
		return nil, 0, nil
	}
	return out.Kvs[0].Value, out.Kvs[0].ModRevision, nil
}

// WriteCredentials writes the record over that of a revision; false means that there is another.
func (b *Backend) WriteCredentials(ctx context.Context, record []byte, revision int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	key := b.key(credentialsKey)
	out, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, string(record))).Commit()
	if err != nil {
		return false, fmt.Errorf("cluster credentials: write %s: %w", key, err)
	}
	return out.Succeeded, nil
}
