package maintenance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"pintle.dev/pintle/kernel/api/etcd"
	"pintle.dev/pintle/kernel/store"
)

// Etcd says where etcd is.
type Etcd struct {
	Servers                   []string
	CertFile, KeyFile, CAFile string
	// Prefix begins all keys. Default /registry.
	Prefix string
}

// Migrated is the outcome of a migration.
type Migrated struct {
	// Keys were moved, Present of them by a former run.
	Keys    int64 `json:"keys"`
	Present int64 `json:"present"`
	Bytes   int64 `json:"bytes"`
	// FromRevision is the revision that was read; Revision the one of the new store.
	FromRevision uint64 `json:"fromRevision"`
	Revision     uint64 `json:"revision"`
	// VersionsKept says whether objects have the resource versions that they had.
	VersionsKept bool `json:"resourceVersionsKept"`
}

const (
	etcdDial = 10 * time.Second
	// A transaction of etcd takes 128 operations and 1.5 MiB unless it is told otherwise.
	etcdBatch      = 100
	etcdBatchBytes = 1 << 20
	etcdPage       = 500
)

func (e Etcd) open(ctx context.Context) (*clientv3.Client, error) {
	cfg, err := etcd.ClientConfig(e.Servers, e.CertFile, e.KeyFile, e.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificates for etcd: %w", err)
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(e.Servers, ", "), err)
	}
	ctx, cancel := context.WithTimeout(ctx, etcdDial)
	defer cancel()
	if _, err := c.Get(ctx, e.marker()); err != nil {
		return nil, errors.Join(fmt.Errorf("no answer from etcd at %s: %w; check the addresses and certificates, and that etcd runs", strings.Join(e.Servers, ", "), err), c.Close())
	}
	return c, nil
}

func (e Etcd) prefix() string {
	if e.Prefix == "" {
		return strings.TrimSuffix(Root, "/")
	}
	return strings.TrimSuffix(e.Prefix, "/")
}

// key is where etcd has what the embedded store has at key.
func (e Etcd) key(key string) string { return e.prefix() + "/" + strings.TrimPrefix(key, Root) }

// marker says which store is being moved; it is there until the move is complete. No resource lies there.
func (e Etcd) marker() string { return "/pintle.dev/migration" + e.prefix() }

type marker struct {
	Store    string `json:"store"`
	Revision uint64 `json:"revision"`
}

// ToEtcd copies every key of the store in cfg.Dir, which no kernel may have open, to an etcd that has none below the
// prefix, or has those of a former run that was broken off: it then goes on. etcd gives out revisions of its own, so
// the resource versions change.
func ToEtcd(ctx context.Context, cfg store.Config, e Etcd, progress func(step string, done, total int64)) (out Migrated, err error) {
	s, closeStore, err := store.OpenReading(cfg)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	c, err := e.open(ctx)
	if err != nil {
		return out, err
	}
	defer c.Close()
	want := marker{Store: s.ID(), Revision: s.CurrentRevision()}
	present, err := e.begin(ctx, c, want)
	if err != nil {
		return out, err
	}
	snapshot, err := s.Snapshot(0)
	if err != nil {
		return out, err
	}
	total, _ := s.Size("")
	w := &etcdWriter{ctx: ctx, client: c}
	var failed error
	err = snapshot.Ascend("", "", func(i *store.Item) bool {
		kv, err := i.Load()
		if err != nil {
			failed = err
			return false
		}
		out.Keys++
		out.Bytes += int64(len(kv.Value))
		if present[e.key(kv.Key)] {
			out.Present++
		} else if failed = w.put(e.key(kv.Key), kv); failed != nil {
			return false
		}
		progress("copy", out.Keys, total)
		return true
	})
	if err = errors.Join(err, failed); err == nil {
		err = w.flush()
	}
	if err != nil {
		return out, fmt.Errorf("copying to etcd, after %d of %d keys: %w; run it again to go on", out.Keys, total, err)
	}
	if out.Revision, err = e.compare(ctx, c, s, total, progress); err != nil {
		return out, err
	}
	out.FromRevision = want.Revision
	_, err = c.Delete(ctx, e.marker())
	return out, err
}

// begin takes an empty prefix, or the one that a former run on the same state began with, and lists what is there.
func (e Etcd) begin(ctx context.Context, c *clientv3.Client, want marker) (present map[string]bool, err error) {
	got, err := c.Get(ctx, e.marker())
	if err != nil {
		return nil, err
	}
	present = map[string]bool{}
	if _, err := e.each(ctx, c, 0, true, func(key string, _ *etcdValue) error {
		present[key] = true
		return nil
	}); err != nil {
		return nil, err
	}
	if len(got.Kvs) > 0 {
		var had marker
		if err := json.Unmarshal(got.Kvs[0].Value, &had); err != nil || had != want {
			return nil, fmt.Errorf("etcd holds part of another migration (%s), this one is of store %s at revision %d: go on with that one, or remove %s/ and %s from etcd and begin anew",
				got.Kvs[0].Value, want.Store, want.Revision, e.prefix(), e.marker())
		}
		return present, nil
	}
	if len(present) > 0 {
		return nil, fmt.Errorf("etcd has %d keys below %s/ already: migrate into an empty prefix, or remove them", len(present), e.prefix())
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	_, err = c.Put(ctx, e.marker(), string(text))
	return present, err
}

// etcdWriter writes keys in transactions. Each must be new.
type etcdWriter struct {
	ctx    context.Context
	client *clientv3.Client
	ifs    []clientv3.Cmp
	puts   []clientv3.Op
	bytes  int
}

func (w *etcdWriter) put(key string, kv store.KV) error {
	var options []clientv3.OpOption
	if kv.Expires != 0 {
		left := int64(time.Until(time.UnixMilli(kv.Expires)) / time.Second)
		lease, err := w.client.Grant(w.ctx, max(left, 1))
		if err != nil {
			return err
		}
		options = append(options, clientv3.WithLease(lease.ID))
	}
	if len(w.puts) > 0 && w.bytes+len(kv.Value) > etcdBatchBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.ifs = append(w.ifs, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	w.puts = append(w.puts, clientv3.OpPut(key, string(kv.Value), options...))
	w.bytes += len(kv.Value)
	if len(w.puts) < etcdBatch {
		return nil
	}
	return w.flush()
}

func (w *etcdWriter) flush() error {
	if len(w.puts) == 0 {
		return nil
	}
	res, err := w.client.Txn(w.ctx).If(w.ifs...).Then(w.puts...).Commit()
	if err != nil {
		return err
	}
	if !res.Succeeded {
		return errors.New("somebody else writes below the same prefix: stop every kernel on this etcd first")
	}
	w.ifs, w.puts, w.bytes = w.ifs[:0], w.puts[:0], 0
	return nil
}

// etcdValue is a key of etcd.
type etcdValue struct {
	value    []byte
	revision uint64
	lease    clientv3.LeaseID
}

// each calls visit with every key below the prefix as of one revision, 0: the current one, which it returns.
func (e Etcd) each(ctx context.Context, c *clientv3.Client, revision int64, keysOnly bool, visit func(key string, v *etcdValue) error) (int64, error) {
	from, end := e.prefix()+"/", clientv3.GetPrefixRangeEnd(e.prefix()+"/")
	for {
		options := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(etcdPage), clientv3.WithRev(revision)}
		if keysOnly {
			options = append(options, clientv3.WithKeysOnly())
		}
		res, err := c.Get(ctx, from, options...)
		if err != nil {
			return revision, fmt.Errorf("reading etcd: %w", err)
		}
		if revision == 0 {
			revision = res.Header.Revision
		}
		for _, kv := range res.Kvs {
			if err := visit(string(kv.Key), &etcdValue{kv.Value, uint64(kv.ModRevision), clientv3.LeaseID(kv.Lease)}); err != nil {
				return revision, err
			}
			from = string(kv.Key) + "\x00"
		}
		if !res.More {
			return revision, nil
		}
	}
}

// compare reads all of it back.
func (e Etcd) compare(ctx context.Context, c *clientv3.Client, s *store.Store, total int64, progress func(string, int64, int64)) (uint64, error) {
	var n, ended int64
	revision, err := e.each(ctx, c, 0, false, func(key string, v *etcdValue) error {
		n++
		progress("compare", n, total)
		kv, _, err := s.Get(Root + strings.TrimPrefix(key, e.prefix()+"/"))
		if err != nil || !bytes.Equal(kv.Value, v.value) {
			return fmt.Errorf("key %s in etcd is not what the store has: stop every kernel on this etcd, remove %s/ and %s, and begin anew", key, e.prefix(), e.marker())
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	now := time.Now().UnixMilli()
	s.Each(func(key string, _ uint64, _ int64) {
		if kv, _, err := s.Get(key); err == nil && kv.Expires != 0 && kv.Expires < now+1000 {
			ended++ // may be gone by its time to live
		}
	})
	if n > total || n < total-ended {
		return 0, fmt.Errorf("etcd has %d keys below %s/, the store has %d: run it again", n, e.prefix(), total)
	}
	return uint64(revision), nil
}

// FromEtcd makes the store cfg.Dir, which must be absent or empty, from what etcd has below the prefix at its current
// revision. Objects keep their resource versions: they are revisions of etcd, and the embedded store takes them. It
// appears as a whole or not at all; run it again after an error.
func FromEtcd(ctx context.Context, cfg store.Config, e Etcd, progress func(step string, done, total int64)) (out Migrated, err error) {
	c, err := e.open(ctx)
	if err != nil {
		return out, err
	}
	defer c.Close()
	half, err := c.Get(ctx, e.marker())
	if err != nil {
		return out, err
	}
	if len(half.Kvs) > 0 {
		return out, fmt.Errorf("etcd holds part of a migration to it (%s): complete that one first", half.Kvs[0].Value)
	}
	all, err := c.Get(ctx, e.prefix()+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return out, fmt.Errorf("reading etcd: %w", err)
	}
	if all.Count == 0 {
		return out, fmt.Errorf("etcd has nothing below %s/: name the prefix of its kernels (store.etcd.prefix)", e.prefix())
	}
	revision := uint64(all.Header.Revision)
	in, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := e.asBackup(ctx, c, revision, w, func(n, bytes int64) {
			out.Keys, out.Bytes = n, bytes
			progress("copy", n, all.Count)
		})
		w.CloseWithError(err)
		written <- err
	}()
	r, err := store.Restore(ctx, cfg, []store.BackupSource{{Name: "etcd", Once: true, Open: func() (io.ReadCloser, error) { return in, nil }}}, store.RestoreOptions{})
	in.CloseWithError(err)
	if failed := <-written; failed != nil && (err == nil || errors.Is(err, failed)) {
		err = failed
	}
	if err != nil {
		return out, err
	}
	out.FromRevision, out.Revision, out.VersionsKept = revision, r.Revision, true
	return out, nil
}

// asBackup writes what etcd has as a full backup.
func (e Etcd) asBackup(ctx context.Context, c *clientv3.Client, revision uint64, w io.Writer, progress func(n, bytes int64)) error {
	b, err := store.NewBackupWriter(w, store.BackupHeader{
		Kind: store.BackupFull, Store: "etcd", From: revision, Revision: revision, Created: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	leases := map[clientv3.LeaseID]int64{}
	var n, size int64
	_, err = e.each(ctx, c, int64(revision), false, func(key string, v *etcdValue) error {
		record := store.Record{State: true, Key: Root + strings.TrimPrefix(key, e.prefix()+"/"), Revision: v.revision, Value: v.value}
		if v.lease != 0 {
			expires, known := leases[v.lease]
			if !known {
				left, err := c.TimeToLive(ctx, v.lease)
				if err != nil {
					return fmt.Errorf("time to live of %s: %w", key, err)
				}
				// A lease that has ended is one of a key that is about to go.
				expires = time.Now().Add(time.Duration(max(left.TTL, 1)) * time.Second).UnixMilli()
				leases[v.lease] = expires
			}
			record.Expires = expires
		}
		n++
		size += int64(len(v.value))
		progress(n, size)
		return b.Add(&record)
	})
	if err != nil {
		return err
	}
	_, err = b.Close()
	return err
}
