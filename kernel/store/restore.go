package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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
