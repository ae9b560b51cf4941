package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// PeerTTL is how long an API server is listed after it was last announced, as upstream's master leases last.
const PeerTTL = 15 * time.Second

// peersKey is where API servers are listed, below the prefix; upstream's name for the same.
const peersKey = "masterleases"

// Announce lists an API server by its address for PeerTTL from now.
func (b *Backend) Announce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// A lease a call: one that was kept alive would have to be looked after when it is lost.
	lease, err := b.client.Grant(ctx, int64(PeerTTL/time.Second))
	if err != nil {
		return fmt.Errorf("announce api server %s: %w", address, err)
	}
	if _, err := b.client.Client.Put(ctx, b.key(peersKey, address), address, clientv3.WithLease(lease.ID)); err != nil {
		return fmt.Errorf("announce api server %s: %w", address, err)
	}
	return nil
}

// Withdraw takes an API server from the list.
func (b *Backend) Withdraw(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := b.client.Client.Delete(ctx, b.key(peersKey, address)); err != nil {
		return fmt.Errorf("withdraw api server %s: %w", address, err)
	}
	return nil
}

// Peers lists the addresses of the API servers that live, in order.
func (b *Backend) Peers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	prefix := b.key(peersKey) + "/"
	out, err := b.client.Client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("list api servers: %w", err)
	}
	addresses := make([]string, 0, len(out.Kvs))
	for _, kv := range out.Kvs {
		addresses = append(addresses, strings.TrimPrefix(string(kv.Key), prefix))
	}
	slices.Sort(addresses)
	return addresses, nil
}
