package kernel

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/etcd"
	"pintle.dev/pintle/kernel/api/samples"
	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/maintenance"
	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/store"
)

// openStorage opens the configured backend, which runs and ends as the part
// "store". An error leaves nothing open.
func (k *Kernel) openStorage(cfg *config.Config) (api.Backend, error) {
	if cfg.Store.Backend == config.BackendEtcd {
		return k.openEtcd(cfg)
	}
	return k.openBadger(cfg)
}

// FaultFile is where the trace of a fault that ends the process is kept.
func FaultFile(cfg *config.Config) string {
	if cfg.Store.Backend == config.BackendEtcd {
		return filepath.Join(cfg.DataDir, store.FaultFile)
	}
	return filepath.Join(storeDir(cfg.DataDir), store.FaultFile)
}

func (k *Kernel) openBadger(cfg *config.Config) (_ api.Backend, err error) {
	var keys [][]byte
	if cfg.Store.EncryptionKey != "" {
		if keys, err = store.ReadKeys(cfg.Store.EncryptionKey); err != nil {
			return nil, err
		}
	}
	dictionaries, err := samples.Dictionaries()
	if err != nil {
		return nil, err
	}
	st, err := store.Open(store.Config{
		Keys: keys, Dictionaries: dictionaries,
		Dir: k.dirs.store, Retention: cfg.Store.HistoryRetention, MaxHistory: cfg.Store.HistoryRevisions,
		MinFreeBytes: int64(cfg.Store.MinFree), Logger: k.log.With("part", "store"),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	b, err := bus.New(bus.Config{Logger: k.log.With("part", "store")}, st)
	if err != nil {
		return nil, err
	}
	backend, err := storage.NewBackend(st, b, storage.Options{EncodingBytes: encodingBytes(cfg.Store.ListEncodings)})
	if err != nil {
		return nil, err
	}
	if err := k.maintain(st, b); err != nil {
		return nil, err
	}
	k.resting.Store(backend)
	k.parts.Start("store", st.Run, func(context.Context) error { return st.Close() })
	k.step("store", "revision %d", st.CurrentRevision())
	return backend, nil
}

// encodingBytes is the storage's bound, for which none is less than zero.
func encodingBytes(n config.Size) int64 {
	if n == 0 {
		return -1
	}
	return int64(n)
}

// rest drops what the backend keeps for speed alone, once there is one, and has machine
// code let go that nothing runs.
func (k *Kernel) rest() {
	if b := k.resting.Load(); b != nil {
		b.Rest()
	}
	select {
	case k.atRest <- struct{}{}:
	default: // it is being let go
	}
}

// letGoOfCode moves machine code to the disk at each rest, until ctx ends. That can take as
// long as the disk does: the pace of the heap does not wait for it.
func (k *Kernel) letGoOfCode(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.atRest:
		}
		if err := engine.Release(ctx, k.dirs.plugins); err != nil && ctx.Err() == nil {
			k.log.Debug("machine code of modules stays in memory", "error", err)
		}
	}
}

// maintain makes what an operator asks of the store.
func (k *Kernel) maintain(st *store.Store, b *bus.Bus) (err error) {
	k.maintenance.handler, err = maintenance.NewHandler(maintenance.Config{
		Store: st, Bus: b, Dir: k.dirs.store, Decoder: maintenance.NewDecoder(),
	})
	k.maintenance.collectors = maintenance.Collectors(st, b)
	return err
}

// withoutTLS are the servers that ask nobody for a certificate.
func withoutTLS(servers []string) []string {
	return slices.DeleteFunc(slices.Clone(servers), func(s string) bool { return !strings.HasPrefix(s, "http://") })
}

func (k *Kernel) openEtcd(cfg *config.Config) (_ api.Backend, err error) {
	ctx := context.Background()
	e := cfg.Store.Etcd
	if plain := withoutTLS(e.Servers); len(plain) > 0 {
		k.log.Warn("etcd is reached without TLS: whoever reaches it reads every Secret and gives themselves every right; "+
			"make certificates with pintle pki etcd DIR and name them in store.etcd", "servers", plain)
	}
	backend, err := etcd.Open(ctx, etcd.Config{
		Servers: e.Servers, CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile, Prefix: e.Prefix,
		CompactionInterval: cfg.Store.HistoryRetention, Logger: k.log.With("part", "store"),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, backend.Close())
		}
	}()
	var key []byte
	if e.ClusterKeyFile != "" {
		if key, err = etcd.ReadClusterKey(e.ClusterKeyFile); err != nil {
			return nil, err
		}
	}
	if err := backend.ShareAuthority(ctx, filepath.Join(cfg.DataDir, "pki"), key); err != nil {
		return nil, err
	}
	revision, err := backend.Revision(ctx)
	if err != nil {
		return nil, err
	}
	k.parts.Start("store", func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, func(context.Context) error { return backend.Close() })
	k.maintenance.handler = maintenance.Elsewhere(strings.Join(e.Servers, ", "))
	k.step("store", "etcd at %s, revision %d", strings.Join(e.Servers, ", "), revision)
	return backend, nil
}
