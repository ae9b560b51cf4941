package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"
)

// Store is the open database of one data directory. All methods may be called from many goroutines.
type Store struct {
	cfg   Config
	log   *slog.Logger
	db    *badger.DB
	index *index
	mark  *watermark
	// dictionaries are set by Open.
	dictionaries dictionaries
	// reserve belongs to whom holds writing, once Run runs.
	reserve reserve
	// refusing is the writer's too: the disk refused the last group (disk.go).
	refusing bool
	// writing is held while a group is written.
	writing sync.Mutex
	// superseded is the bytes of the value log that have become garbage since the last look at it; garbage is what was
	// found at former looks and not collected yet, and collected says that there was a collection (s.compacting).
	superseded atomic.Int64
	garbage    []garbage
	collected  bool

	// compacted is the revision below which nothing is kept. It only grows.
	compacted  atomic.Uint64
	compacting sync.Mutex

	requests chan *request
	// waiting is the number of requests that are in no group yet.
	waiting atomic.Int64
	// stopped is closed when Run has ended: no write will be answered any more.
	stopped  chan struct{}
	running  atomic.Bool
	stopOnce sync.Once

	publish func([]*Event)

	// faults is what Badger complains of; failed receives what ends the store.
	faults   *faults
	failed   chan error
	expiries expiries

	// id names the store, for backups that build on each other.
	id uint64
	// pins hold compaction up (backup.go).
	pins   pins
	ages   ages
	meters meters

	closeOnce sync.Once
	closeErr  error
	// reads counts the Badger reads under way, so that Close waits for them.
	reads  sync.RWMutex
	closed bool
}

// Open opens or creates the database in cfg.Dir, undoes what a crash left of an unacknowledged group and builds the
// index of live keys. Nothing is written to it before Run runs. Errors: *LockedError when another process has the
// directory, *DiskError, or what Badger says.
func Open(cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making data directory %s: %w", cfg.Dir, err)
	}
	if err := checkOpenDisk(cfg); err != nil {
		return nil, err
	}
	// Badger locks the directory itself, but only after it was looked at here.
	if err := checkUnlocked(cfg.Dir); err != nil {
		return nil, err
	}
	if err := cfg.unlock(); err != nil {
		return nil, err
	}
	if err := lastFault(cfg.Dir); err != nil {
		cfg.Logger.Error("the last run ended by a fault", "data_directory", cfg.Dir, "error", err)
	}
	faults := &faults{log: cfg.Logger}
	opt := badgerOptions(cfg).WithLogger(faults)
	inspected, err := inspect(opt)
	if err != nil {
		return nil, openError(cfg, err)
	}
	db, err := badger.OpenManaged(opt)
	if err != nil {
		return nil, openError(cfg, err)
	}
	s := &Store{
		cfg:      cfg,
		faults:   faults,
		log:      cfg.Logger,
		db:       db,
		index:    newIndex(),
		requests: make(chan *request, cfg.MaxGroup),
		stopped:  make(chan struct{}),
		publish:  func([]*Event) {},
		failed:   make(chan error, 1),
	}
	if err := s.reserve.open(cfg); err != nil {
		return nil, errors.Join(openError(cfg, err), db.Close())
	}
	s.expiries.wake = make(chan struct{}, 1)
	s.meters = newMeters()
	if err := s.load(inspected); err != nil {
		return nil, errors.Join(openError(cfg, err), db.Close(), s.mark.close())
	}
	return s, nil
}

// openError names the directory, where the error does not.
func openError(cfg Config, err error) error {
	if errors.As(err, new(*CorruptError)) || errors.As(err, new(*LockedError)) {
		return err
	}
	if strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return &LockedError{Dir: cfg.Dir, PID: lockHolder(cfg.Dir)}
	}
	return fmt.Errorf("opening the database in %s: %w", cfg.Dir, err)
}

// checkUnlocked says who has the directory, if somebody has.
func checkUnlocked(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening data directory %s: %w", dir, err)
	}
	defer f.Close() // and with it the lock
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return &LockedError{Dir: dir, PID: lockHolder(dir)}
	}
	return nil
}

// badgerOptions: one small memory table and its two predecessors, no block cache (tables are read through mmap and not
// compressed), values inline in the tables except very large ones, no conflict detection since the writer does it.
// Badger writes eight tables of a compaction at a time, and the sync of a group waits behind them: hence tables are
// small, and compacted rarely, when there are many of level 0.
func badgerOptions(cfg Config) badger.Options {
	var blockCache, indexCache int64
	if cfg.key() != nil {
		blockCache, indexCache = blockCacheBytes, indexCacheBytes
	}
	return cfg.tune(badger.DefaultOptions(cfg.Dir).
		WithSyncWrites(true).
		WithMemTableSize(cfg.MemTableBytes).
		WithNumMemtables(3).
		WithBaseTableSize(1 << 20).
		WithBaseLevelSize(16 << 20).
		WithNumLevelZeroTables(levelZeroTables(cfg)).
		WithNumLevelZeroTablesStall(32).
		WithNumCompactors(2).
		WithNumGoroutines(2).
		WithCompression(options.None).
		WithBlockCacheSize(blockCache).
		WithIndexCacheSize(indexCache).
		WithEncryptionKey(cfg.key()).
		WithValueThreshold(valueThreshold(cfg)).
		WithValueLogFileSize(valueLogFileBytes).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithVerifyValueChecksum(true).
		WithLogger(&faults{log: cfg.Logger}))
}

// levelZeroTables is the number of tables of level 0 from which on they are compacted: many make for few rewrites, and
// take room on the disk meanwhile, as much again while they are compacted.
func levelZeroTables(cfg Config) int {
	const fewest, most, share = 4, 16, 32
	free, _, err := cfg.diskUsage(cfg.Dir)
	if err != nil {
		return fewest
	}
	return int(min(most, max(fewest, free/share/uint64(cfg.MemTableBytes))))
}

// valueLogFileBytes is the size from which on the value log gets another file. The current file cannot be collected, and
// one that is needs room for what is live of it: hence files are small.
const valueLogFileBytes = 16 << 20

// valueThreshold is the size from which on a value is kept in the value log.
func valueThreshold(cfg Config) int64 { return min(maxInlineValue, cfg.MemTableBytes/16) }

func lockHolder(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "LOCK"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// OnCommit sets the function that receives the events of every committed group, in order, from the writer. It must
// return quickly and never wait. To be called before Run.
func (s *Store) OnCommit(publish func(events []*Event)) { s.publish = publish }

// CurrentRevision is the latest committed revision. An empty store is at 1.
func (s *Store) CurrentRevision() uint64 { return s.index.current() }

// CompactedRevision is the revision below which nothing can be read or replayed, 0 when all history is kept.
func (s *Store) CompactedRevision() uint64 { return s.compacted.Load() }

// Err is nil while the store can be read and written, and says why not otherwise.
func (s *Store) Err() error {
	select {
	case <-s.stopped:
		return ErrClosed
	default:
	}
	return s.checkDisk(s.needed())
}

// Run writes, expires keys, compacts history and collects the value log until ctx ends, then answers every waiting
// write with ErrClosed and returns. Reads work on until Close. It may be called once. It returns before ctx ends, with
// a *DiskError, when the disk failed in the midst of a write: what is on disk is only known again after a restart.
func (s *Store) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("store: Run called twice")
	}
	if release, err := s.catchFaults(); err != nil {
		s.log.Warn("the cause of a fault will not be kept", "error", err)
	} else {
		defer release()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, work := range []func(context.Context){s.runWriter, s.runExpiry, s.runCompaction, s.runValueLogGC, s.runRelief} {
		wg.Go(func() { work(ctx) })
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.failed:
		cancel()
	}
	wg.Wait()
	return failure
}

// Close closes the database. Run must have returned, or never been called.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stopOnce.Do(func() { close(s.stopped) })
		s.reads.Lock()
		s.closed = true
		s.reads.Unlock()
		if err := errors.Join(s.db.Close(), s.mark.close()); err != nil {
			s.closeErr = fmt.Errorf("closing the database in %s: %w", s.cfg.Dir, err)
		}
	})
	return s.closeErr
}

// load reads the meta data, repairs and builds the index.
func (s *Store) load(inspected *inspection) (err error) {
	defer s.guard(arm(), "", 0, &err)
	if s.mark, err = openWatermark(s.cfg.Dir); err != nil {
		return err
	}
	if err := inspected.settle(s); err != nil {
		return err
	}
	format, err := s.readMeta("format")
	if err != nil {
		return err
	}
	if format > formatPacked {
		return fmt.Errorf("its format is %d, this program knows up to %d: use a newer one", format, formatPacked)
	}
	compacted, err := s.readMeta("compacted")
	if err != nil {
		return err
	}
	s.compacted.Store(compacted)
	if format == 0 {
		if err := s.writeMeta("format", formatVersion, 1); err != nil {
			return err
		}
	}
	if err := s.identify(); err != nil {
		return err
	}
	if err := s.loadDictionaries(); err != nil {
		return err
	}
	current, err := s.recoverTorn()
	if err != nil {
		return err
	}
	if err := s.mark.check(s.cfg.Dir, current); err != nil {
		return err
	}
	if err := s.checkHistory(current); err != nil {
		return err
	}
	// A collection of the value log that a crash interrupted is ended, before anything may be dropped.
	noted, interrupted, err := s.readBuried()
	if err != nil {
		return err
	}
	if interrupted && len(noted) > 0 {
		if err := s.repeatDeletes(noted); err != nil {
			return err
		}
	}
	if err := s.buildIndex(current); err != nil {
		return err
	}
	if interrupted {
		if err := s.bury(nil); err != nil {
			return err
		}
	}
	if err := s.keepDictionaries(format); err != nil {
		return err
	}
	s.db.SetDiscardTs(compacted)
	return s.mark.set(current)
}

func (s *Store) readMeta(name string) (uint64, error) {
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	item, err := txn.Get(metaKey(name))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("meta %s: %w", name, err)
	}
	var v uint64
	err = item.Value(func(b []byte) error {
		if len(b) != 8 {
			return fmt.Errorf("meta %s: %w", name, errCorrupt)
		}
		v = binary.BigEndian.Uint64(b)
		return nil
	})
	return v, err
}

// writeMeta writes at a version that is already in use, since versions above the current revision mean a torn group.
func (s *Store) writeMeta(name string, value, version uint64) error {
	batch := s.db.NewManagedWriteBatch()
	defer batch.Cancel()
	if err := batch.SetEntryAt(badger.NewEntry(metaKey(name), binary.BigEndian.AppendUint64(nil, value)), version); err != nil {
		return err
	}
	return batch.Flush()
}

func (s *Store) buildIndex(current uint64) error {
	txn := s.db.NewTransactionAt(current, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceData}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		e := entry{key: string(item.Key()[1:]), revision: item.Version(), size: item.ValueSize()}
		if marks := item.UserMeta(); marks != 0 {
			err := item.Value(func(b []byte) error {
				value, revision, expires, err := decodeValue(b, marks, item.Version())
				e.revision, e.expires, e.size = revision, expires, int64(len(value))
				if err == nil && marks&markPacked != 0 {
					e.size, err = unpackedSize(value)
				}
				return err
			})
			if err != nil {
				return s.damage(e.key, item.Version(), err)
			}
		} else if e.size >= valueThreshold(s.cfg) {
			// A value of its own in the value log, whose end Badger cuts off where it is damaged, and whose size it
			// guesses, a few bytes too high.
			value, err := storedValue(item)
			if err != nil {
				return s.damage(e.key, item.Version(), err)
			}
			e.size = int64(len(value))
		}
		if e.expires != 0 {
			s.expiries.push(expiry{at: e.expires, key: e.key, revision: e.revision})
		}
		s.index.set(e)
	}
	s.index.revision = current
	return nil
}
