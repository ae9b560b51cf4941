package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
)

// claimsKey is where the cluster IPs and node ports lie that are taken, below the prefix: one key each, which holds
// when it was taken, in seconds of Unix time: for people, since the clocks of kernels may differ.
const claimsKey = "serviceclaims"

var _ ipalloc.Claims = (*Backend)(nil)

// Claim implements ipalloc.Claims.
func (b *Backend) Claim(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	key := b.key(claimsKey, name)
	out, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, strconv.FormatInt(time.Now().Unix(), 10))).Commit()
	if err != nil {
		return false, fmt.Errorf("claim %s: %w", name, err)
	}
	return out.Succeeded, nil
}

// Release implements ipalloc.Claims.
func (b *Backend) Release(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, name := range names {
		if _, err := b.client.Client.Delete(ctx, b.key(claimsKey, name)); err != nil {
			return fmt.Errorf("release %s: %w", name, err)
		}
	}
	return nil
}

// Claimed implements ipalloc.Claims.
func (b *Backend) Claimed(ctx context.Context) ([]ipalloc.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	prefix := b.key(claimsKey) + "/"
	out, err := b.client.Client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	claims := make([]ipalloc.Claim, 0, len(out.Kvs))
	for _, kv := range out.Kvs {
		claims = append(claims, ipalloc.Claim{Name: strings.TrimPrefix(string(kv.Key), prefix), Revision: kv.ModRevision})
	}
	return claims, nil
}

// Expire implements ipalloc.Claims.
func (b *Backend) Expire(ctx context.Context, c ipalloc.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	key := b.key(claimsKey, c.Name)
	_, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", c.Revision)).Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return fmt.Errorf("expire %s: %w", c.Name, err)
	}
	return nil
}
