package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io"

	"pintle.dev/pintle/kernel/store"
)

// directory is a Source over a database that no kernel has open.
type directory struct {
	cfg     store.Config
	decoder *Decoder
	// s is opened, for reading, by the first that needs it.
	s          *store.Store
	closeStore func() error
}

// OpenDirectory gives the store in cfg.Dir. Each operation takes the directory for as long as it needs it; errors of
// that are *store.LockedError, with the pid of the kernel that has it, and what store.Open says.
func OpenDirectory(cfg store.Config, d *Decoder) Source { return &directory{cfg: cfg, decoder: d} }

func (d *directory) Where() string { return "directory " + d.cfg.Dir + ", offline" }

func (d *directory) Close() error {
	if d.s == nil {
		return nil
	}
	d.s = nil
	return d.closeStore()
}

func (d *directory) open() (*store.Store, error) {
	if d.s != nil {
		return d.s, nil
	}
	s, closeStore, err := store.OpenReading(d.cfg)
	if err != nil {
		return nil, err
	}
	d.s, d.closeStore = s, closeStore
	return s, nil
}

func (d *directory) Stats(context.Context) (Stats, error) {
	s, err := d.open()
	if err != nil {
		return Stats{}, err
	}
	st, err := statsOf(s, d.cfg.Dir)
	if err != nil {
		return st, err
	}
	// The store is read through a directory of its own; its files are counted where they are.
	use, err := store.DirectoryUse(d.cfg)
	own := st.Disk.TablesByLevel
	st.Disk = disk(store.Stats{Disk: use, Levels: own})
	return st, err
}

func (d *directory) Compact(ctx context.Context, r CompactRequest) (out Compacted, err error) {
	if r.Revision == 0 {
		return out, errors.New("compacting by age takes a running kernel, which knows the age of revisions: name a revision instead")
	}
	if err := d.Close(); err != nil {
		return out, err
	}
	s, err := store.Open(d.cfg)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Compact(ctx, r.Revision); err != nil {
		return out, err
	}
	return compactedOf(ctx, s, r.Revision)
}

func (d *directory) Get(_ context.Context, key string, revision uint64) (Value, error) {
	s, err := d.open()
	if err != nil {
		return Value{}, err
	}
	return getOf(s, key, revision)
}

func (d *directory) History(_ context.Context, key string, limit int) ([]Value, error) {
	s, err := d.open()
	if err != nil {
		return nil, err
	}
	return historyOf(s, key, limit)
}

func (d *directory) Backup(ctx context.Context, r BackupRequest, w io.Writer, progress func(done, total int64)) (out Backup, err error) {
	s, err := d.open()
	if err != nil {
		return out, err
	}
	c := &counted{w: w}
	keys, _ := s.Size("")
	out.BackupHeader, out.BackupEnd, err = backupOf(ctx, s, r, c, func(records, _ int64) {
		if progress != nil {
			progress(records, keys)
		}
	})
	out.Size = c.n
	return out, err
}

func (d *directory) Verify(ctx context.Context, progress func(step string, done, total int64)) (store.VerifyReport, error) {
	if err := d.Close(); err != nil {
		return store.VerifyReport{}, err
	}
	report, err := store.VerifyDirectory(ctx, d.cfg, store.VerifyOptions{Check: d.decoder.Check, Progress: progress})
	if err != nil {
		return report, fmt.Errorf("verifying %s: %w", d.cfg.Dir, err)
	}
	return report, nil
}
