package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	badger "github.com/dgraph-io/badger/v4"
)

// maxVoid is the longest row of undone revisions that is believed.
const maxVoid = 10_000_000

// restoring is a restore at work.
type restoring struct {
	ctx context.Context
	cfg Config
	o   RestoreOptions
	id  uint64

	db    *badger.DB
	batch *badger.WriteBatch

	store string
	from  uint64
	// reached is the last revision written.
	reached uint64
	// group collects changes for one entry of the history.
	group   []change
	changes int64
	done    bool
}

var errRestoredAll = errors.New("restored as far as asked for")

func (r *restoring) run(sources []BackupSource) (err error) {
	cfg := r.cfg
	cfg.MemTableBytes = max(cfg.MemTableBytes, 64<<20)
	// Nothing counts before the rename, so nothing is synced before the end.
	r.db, err = badger.OpenManaged(badgerOptions(cfg).WithSyncWrites(false))
	if err != nil {
		return fmt.Errorf("making a database in %s: %w", cfg.Dir, err)
	}
	r.batch = r.db.NewManagedWriteBatch()
	defer func() {
		r.batch.Cancel()
		err = errors.Join(err, r.db.Close())
	}()
	for i, s := range sources {
		if err := r.source(i == 0, s); err != nil {
			return err
		}
		if r.done {
			break
		}
	}
	return r.finish()
}

func (r *restoring) source(first bool, s BackupSource) error {
	in, err := s.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	begun := false
	begin := func(b *BackupReader) error {
		begun = true
		h := b.Header()
		if err := (link{s, h}).follows(first, r.store, r.reached); err != nil {
			return err
		}
		if first {
			r.store, r.from, r.reached = h.Store, h.From, h.From
			if s.Once {
				return inChain(r.o.Revision, h.From, h.Revision)
			}
		}
		return nil
	}
	b, err := readBackup(r.ctx, in, s.Name, func(bytes int64) { r.o.Progress("restore", s.Name, bytes) },
		func(b *BackupReader, record *Record) error {
			if !begun {
				if err := begin(b); err != nil {
					return err
				}
			}
			return r.record(record, s.Once)
		})
	if errors.Is(err, errRestoredAll) {
		return nil
	}
	if err == nil && !begun {
		err = begin(b)
	}
	if err != nil {
		return err
	}
	end := b.Header().Revision
	if r.o.Revision != 0 && end >= r.o.Revision {
		end, r.done = r.o.Revision, true
	}
	return r.void(end)
}

// record writes one entry. once: the rest of the backup must be read all the same, for its checksums.
func (r *restoring) record(in *Record, once bool) error {
	if in.State {
		return r.put(in)
	}
	if in.Revision <= r.reached {
		return nil // an incremental backup that begins before the former one's end
	}
	if r.o.Revision != 0 && in.Revision > r.o.Revision {
		if once {
			return nil
		}
		if err := r.void(r.o.Revision); err != nil {
			return err
		}
		r.done = true
		return errRestoredAll
	}
	if err := r.void(in.Revision - 1); err != nil {
		return err
	}
	if in.Type == Deleted {
		if err := r.batch.DeleteAt(dataKey(in.Key), in.Revision); err != nil {
			return err
		}
	} else if err := r.put(in); err != nil {
		return err
	}
	r.changes++
	return r.grow(change{kind: in.Type, key: in.Key, previous: in.Previous})
}

func (r *restoring) put(in *Record) error {
	value := append([]byte(nil), in.Value...)
	stored, marks := encodeValue(value, in.Expires, 0)
	return r.batch.SetEntryAt(badger.NewEntry(dataKey(in.Key), stored).WithMeta(marks), in.Revision)
}

// void fills revisions that hold nothing, up to one.
func (r *restoring) void(through uint64) error {
	if through > r.reached && through-r.reached > maxVoid {
		return fmt.Errorf("revisions %d to %d are missing in the backup", r.reached+1, through)
	}
	for r.reached < through {
		if err := r.grow(change{kind: Void}); err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) grow(c change) error {
	r.reached++
	r.group = append(r.group, c)
	if len(r.group) < 500 {
		return nil
	}
	return r.flush()
}

func (r *restoring) flush() error {
	if len(r.group) == 0 {
		return nil
	}
	first := r.reached - uint64(len(r.group)) + 1
	err := r.batch.SetEntryAt(badger.NewEntry(historyKey(r.reached), encodeGroup(first, r.group)), r.reached)
	r.group = r.group[:0]
	return err
}

// finish writes what says which revision the store is at.
func (r *restoring) finish() error {
	if err := r.flush(); err != nil {
		return err
	}
	compacted := r.from
	if compacted == 1 {
		compacted = 0 // the backup begins with the empty store: all of its history is there
	}
	if r.o.Bump > math.MaxInt64 || r.reached+r.o.Bump > math.MaxInt64 {
		return fmt.Errorf("raising the revision by %d: resource versions end at %d", r.o.Bump, int64(math.MaxInt64))
	}
	if r.o.Bump > 0 {
		r.reached += r.o.Bump
		compacted = r.reached
	}
	if compacted == r.reached && compacted > 0 {
		// There is no change to tell the current revision by.
		if err := r.batch.SetEntryAt(badger.NewEntry(historyKey(r.reached), encodeGroup(r.reached, []change{{kind: Void}})), r.reached); err != nil {
			return err
		}
	}
	for name, value := range map[string]uint64{"format": formatVersion, "id": r.id, "compacted": compacted} {
		entry := badger.NewEntry(metaKey(name), binary.BigEndian.AppendUint64(nil, value))
		if err := r.batch.SetEntryAt(entry, 1); err != nil {
			return err
		}
	}
	if err := r.batch.Flush(); err != nil {
		return fmt.Errorf("writing the restored database: %w", err)
	}
	return r.db.Sync()
}

// check opens what was made as a kernel would.
func (r *restoring) check() (out Restored, err error) {
	s, err := Open(r.cfg)
	if err != nil {
		return out, fmt.Errorf("opening the restored database: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.CurrentRevision() != r.reached {
		return out, fmt.Errorf("the restored database is at revision %d instead of %d", s.CurrentRevision(), r.reached)
	}
	keys, _ := s.Size("")
	return Restored{ID: s.ID(), Revision: r.reached, Compacted: s.CompactedRevision(), Keys: keys, Changes: r.changes}, nil
}
