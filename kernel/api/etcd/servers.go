package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// serversKey is where API servers say who they are, below the prefix; upstream's name
// for the same. No resource is called so: a group that is defined has a dot in its name.
const serversKey = "peerserverleases"

// AnnounceServer keeps what an API server says of itself for PeerTTL from now.
func (b *Backend) AnnounceServer(ctx context.Context, id string, record []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lease, err := b.client.Grant(ctx, int64(PeerTTL/time.Second))
	if err != nil {
		return fmt.Errorf("announce api server %s: %w", id, err)
	}
	if _, err := b.client.Client.Put(ctx, b.key(serversKey, id), string(record), clientv3.WithLease(lease.ID)); err != nil {
		return fmt.Errorf("announce api server %s: %w", id, err)
	}
	return nil
}

// WithdrawServer takes it away.
func (b *Backend) WithdrawServer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := b.client.Client.Delete(ctx, b.key(serversKey, id)); err != nil {
		return fmt.Errorf("withdraw api server %s: %w", id, err)
	}
	return nil
}

// Servers gives what the API servers that live say of themselves.
func (b *Backend) Servers(ctx context.Context) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	prefix := b.key(serversKey) + "/"
	out, err := b.client.Client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("list api servers: %w", err)
	}
	records := make(map[string][]byte, len(out.Kvs))
	for _, kv := range out.Kvs {
		records[strings.TrimPrefix(string(kv.Key), prefix)] = kv.Value
	}
	return records, nil
}
