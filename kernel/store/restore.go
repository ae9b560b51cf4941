package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// BackupSource is a backup to restore from.
type BackupSource struct {
	// Name stands in errors and in the progress.
	Name string
	// Open gives the backup from its beginning.
	Open func() (io.ReadCloser, error)
	// Once is set when Open works once only, as with a pipe. Its checksums are then verified while it is restored, and
	// not in a pass of their own before.
	Once bool
}

// RestoreOptions say what is restored.
type RestoreOptions struct {
	// Revision is the one to restore to; 0: the last of the backups.
	Revision uint64
	// Bump adds to the restored store's revision and drops its history, so that clients which saw revisions after the
	// backup read everything anew instead of waiting for revisions that they know to come again.
	Bump uint64
	// Progress is told what is done with which backup and how many bytes of it were read; may be nil.
	Progress func(step, name string, bytes int64)
}

// Restored is what a restore made.
type Restored struct {
	// ID is the new store's.
	ID string
	// Revision is its current one, and Compacted the one below which it has no history.
	Revision, Compacted uint64
	// Keys have a value at Revision; Changes were replayed.
	Keys, Changes int64
}

// restoringSuffix names the directory in which a restore works, beside the one that it makes.
const restoringSuffix = ".restoring"

// NotEmptyError says that a directory holds something.
type NotEmptyError struct{ Dir string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s is not empty: move it away, or restore into another data directory", e.Dir)
}

// Restore makes the database cfg.Dir, which must be absent or empty, from a full backup and the incremental ones that
// follow it, in order. Keys keep their revisions. The database appears as a whole or not at all. Errors:
// *BackupError, *NotEmptyError, *LockedError when another restore works on the same directory, *FutureRevisionError
// and *CompactedError for a revision outside the backups, and ctx's.
func Restore(ctx context.Context, cfg Config, sources []BackupSource, o RestoreOptions) (_ Restored, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return Restored{}, err
	}
	if len(sources) == 0 {
		return Restored{}, errors.New("nothing to restore from: name a full backup, then the incremental ones that follow it")
	}
	if o.Progress == nil {
		o.Progress = func(string, string, int64) {}
	}
	if err := checkEmpty(cfg.Dir); err != nil {
		return Restored{}, err
	}
	if err := verifyChain(ctx, sources, o); err != nil {
		return Restored{}, err
	}
	target := filepath.Clean(cfg.Dir)
	cfg.Dir = target + restoringSuffix
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return Restored{}, fmt.Errorf("making %s: %w", filepath.Dir(target), err)
	}
	release, err := takeScratch(cfg.Dir)
	if err != nil {
		return Restored{}, err
	}
	defer release()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(cfg.Dir))
		}
	}()
	r := &restoring{ctx: ctx, cfg: cfg, o: o, id: newID()}
	if err := r.run(sources); err != nil {
		return Restored{}, err
	}
	out, err := r.check()
	if err != nil {
		return Restored{}, err
	}
	if err := errors.Join(os.Remove(filepath.Join(cfg.Dir, scratchLock)), syncDir(cfg.Dir)); err != nil {
		return Restored{}, err
	}
	// A rename takes the place of an empty directory, and of nothing else.
	if err := os.Rename(cfg.Dir, target); err != nil {
		return Restored{}, fmt.Errorf("putting the restored database in place: %w", err)
	}
	return out, syncDir(filepath.Dir(target))
}

func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking into %s: %w", dir, err)
	}
	return &NotEmptyError{Dir: dir}
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

const scratchLock = "SCRATCH"

// takeScratch makes an empty directory that belongs to this process until release, which leaves it there. What a
// killed process left in it is removed.
func takeScratch(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &LockedError{Dir: dir}
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil && e.Name() != scratchLock {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("clearing %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// link is a backup in its chain.
type link struct {
	source BackupSource
	header BackupHeader
}

// follows checks that a backup continues what was restored so far.
func (l link) follows(first bool, store string, reached uint64) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("backup %s: %w", l.source.Name, fmt.Errorf(format, args...))
	}
	switch h := l.header; {
	case first && h.Kind != BackupFull:
		return fail("it is incremental, from revision %d: put the full backup that it builds on before it", h.From)
	case first:
		return nil
	case h.Kind == BackupFull:
		return fail("it is a second full backup: restore from one of them")
	case h.Store != store:
		return fail("it is of store %s, those before it of %s", h.Store, store)
	case h.From > reached:
		return fail("it begins after revision %d, and those before it end at %d: an incremental backup between them is missing", h.From, reached)
	}
	return nil
}

// verifyChain reads all backups that can be read twice, so that a fault is found before anything is written.
func verifyChain(ctx context.Context, sources []BackupSource, o RestoreOptions) error {
	var store string
	var from, reached uint64
	for i, s := range sources {
		if s.Once {
			if len(sources) > 1 {
				return fmt.Errorf("%s can be read once only, and so be restored alone only: write it to a file", s.Name)
			}
			return nil
		}
		in, err := s.Open()
		if err != nil {
			return err
		}
		r, err := readBackup(ctx, in, s.Name, func(bytes int64) { o.Progress("verify", s.Name, bytes) }, nil)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
		l := link{s, r.Header()}
		if err := l.follows(i == 0, store, reached); err != nil {
			return err
		}
		if i == 0 {
			store, from = l.header.Store, l.header.From
		}
		reached = max(reached, l.header.Revision)
	}
	return inChain(o.Revision, from, reached)
}

func inChain(revision, from, reached uint64) error {
	switch {
	case revision == 0:
		return nil
	case revision > reached:
		return fmt.Errorf("restoring to revision %d: the backups end at %d", revision, reached)
	case revision < from:
		return fmt.Errorf("restoring to revision %d: the full backup begins at %d; one of that time is needed", revision, from)
	}
	return nil
}

// readBackup reads a backup to its end. visit may be nil, for a check.
func readBackup(ctx context.Context, in io.Reader, name string, progress func(bytes int64), visit func(*BackupReader, *Record) error) (*BackupReader, error) {
	r, err := NewBackupReader(in, name)
	if err != nil {
		return nil, err
	}
	var told int64
	return r, r.Blocks(func(record *Record) error {
		if r.Offset() != told {
			told = r.Offset()
			progress(told)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if visit == nil {
			return nil
		}
		return visit(r, record)
	})
}

// VerifyBackup reads a backup and checks all of it; check, when not nil, is asked about each value. Errors:
// *BackupError, check's or ctx's.
func VerifyBackup(ctx context.Context, in io.Reader, name string, progress func(bytes int64), check func(*Record) error) (BackupHeader, BackupEnd, error) {
	if progress == nil {
		progress = func(int64) {}
	}
	r, err := readBackup(ctx, in, name, progress, func(_ *BackupReader, record *Record) error {
		if check == nil {
			return nil
		}
		return check(record)
	})
	if r == nil {
		return BackupHeader{}, BackupEnd{}, err
	}
	return r.Header(), r.End(), err
}

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
