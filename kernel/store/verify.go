package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// VerifyOptions say what a verification does beside reading everything.
type VerifyOptions struct {
	// Check is asked about each live value, such as whether it can be decoded; may be nil.
	Check func(KV) error
	// Progress is told how much of a step is done; may be nil.
	Progress func(step string, done, total int64)
	// MaxProblems is how many problems are kept; the rest is counted. Default 100.
	MaxProblems int
}

// Problem is something that is not as it should be.
type Problem struct {
	// Step is the step that found it: one of the Verify constants.
	Step string `json:"step"`
	// File, Key and Revision are what it touches, as far as that is known.
	File     string `json:"file,omitempty"`
	Key      string `json:"key,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	Detail   string `json:"detail"`
}

func (p Problem) String() string {
	out := p.Step + ": "
	if p.File != "" {
		out += "file " + p.File + ": "
	}
	if p.Key != "" {
		out += fmt.Sprintf("key %s: ", p.Key)
	}
	if p.Revision != 0 {
		out += fmt.Sprintf("revision %d: ", p.Revision)
	}
	return out + p.Detail
}

// Steps of a verification.
const (
	// VerifyTables: each table of the manifest is there, and its checksums are right.
	VerifyTables = "tables"
	// VerifyOpen: a kernel would start on it. Offline only.
	VerifyOpen = "open"
	// VerifyHistory: the entries of the history follow each other without a gap.
	VerifyHistory = "history"
	// VerifyValues: each value can be read with its checksum, the history says how it came to be, nothing that the
	// history says is missing, and the index of live keys is what the disk says.
	VerifyValues = "values"
	// VerifyObjects: VerifyOptions.Check takes each live value.
	VerifyObjects = "objects"
)

// VerifyReport is the outcome of a verification.
type VerifyReport struct {
	Revision  uint64 `json:"revision"`
	Compacted uint64 `json:"compactedRevision"`
	// Tables were read with TableBytes.
	Tables     int64 `json:"tables"`
	TableBytes int64 `json:"tableBytes"`
	// Keys have a value and were checked, with Bytes; Versions is the number of values read, former ones included, and
	// Changes that of the revisions in the history.
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	Versions int64 `json:"versions"`
	Changes  int64 `json:"changes"`
	// Problems are the first that were found, Found counts all.
	Problems []Problem `json:"problems,omitempty"`
	Found    int64     `json:"found"`
}

// verification is a verification at work.
type verification struct {
	VerifyReport
	ctx context.Context
	s   *Store
	o   VerifyOptions
	// seed is of the hashes by which keys are compared.
	seed maphash.Seed
}

func newVerification(ctx context.Context, s *Store, o VerifyOptions) *verification {
	if o.MaxProblems <= 0 {
		o.MaxProblems = 100
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return &verification{ctx: ctx, s: s, o: o, seed: maphash.MakeSeed()}
}

func (v *verification) found(p Problem) {
	v.Found++
	if len(v.Problems) < v.o.MaxProblems {
		v.Problems = append(v.Problems, p)
	}
}

// VerifyDirectory is Verify of a database that nobody has open, and finds what keeps it from being opened too. It
// changes nothing. Errors: *LockedError, what keeps it from looking, or ctx's; what is wrong is in the report.
func VerifyDirectory(ctx context.Context, cfg Config, o VerifyOptions) (VerifyReport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return VerifyReport{}, err
	}
	v := newVerification(ctx, nil, o)
	unlock, err := lockShared(cfg.Dir)
	if err != nil {
		return v.VerifyReport, err
	}
	if err := errors.Join(v.tables(cfg), unlock()); err != nil || v.Found > 0 {
		return v.VerifyReport, err // a store with a damaged table does not open
	}
	s, closeStore, err := OpenReading(cfg)
	if corrupt := new(CorruptError); errors.As(err, &corrupt) {
		v.found(Problem{Step: VerifyOpen, File: corrupt.File, Key: corrupt.Key, Revision: corrupt.Revision, Detail: corrupt.Err.Error()})
		return v.VerifyReport, nil
	}
	if err != nil {
		return v.VerifyReport, err
	}
	v.s = s
	err = v.data(s.CompactedRevision())
	return v.VerifyReport, errors.Join(err, closeStore())
}

// Verify checks the store as of now: the tables' checksums, that history, values and index agree, and each live
// value by VerifyOptions.Check. Writes go on meanwhile; compaction waits. It needs 24 bytes of memory a revision of the
// history. The error says what kept it from looking; what is wrong is in the report.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error) {
	v := newVerification(ctx, s, o)
	if err := s.enter(); err != nil {
		return v.VerifyReport, err
	}
	defer s.leave()
	if err := v.tables(s.cfg); err != nil {
		return v.VerifyReport, err
	}
	p := s.hold(0)
	defer s.pins.release(p)
	before := v.o.Progress
	v.o.Progress = func(step string, done, total int64) {
		s.pins.touch(p)
		before(step, done, total)
	}
	err := v.data(p.revision)
	return v.VerifyReport, err
}

// tables reads every table that the manifest lists.
func (v *verification) tables(cfg Config) error {
	opt := badgerOptions(cfg)
	keys, err := openKeys(opt)
	if err != nil {
		return fmt.Errorf("opening the keys of %s: %w", cfg.Dir, err)
	}
	listed := func() (map[uint64]badger.TableManifest, error) {
		manifest, err := readManifest(opt)
		if errors.Is(err, errTornManifest) {
			return nil, nil // what a crash leaves; the next start cuts it off
		}
		return manifest.Tables, err
	}
	tables, err := listed()
	if err != nil {
		v.found(Problem{Step: VerifyTables, File: badger.ManifestFilename, Detail: err.Error()})
		return nil
	}
	ids := make([]uint64, 0, len(tables))
	for id := range tables {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.o.Progress(VerifyTables, int64(i), int64(len(ids)))
		path := tablePath(cfg.Dir, id)
		info, err := os.Stat(path)
		if err == nil {
			err = checkTable(path, tables[id], keys)
		}
		if err != nil {
			// A running store replaces tables.
			if now, again := listed(); again == nil && v.s != nil {
				if _, still := now[id]; !still {
					continue
				}
			}
			if errors.Is(err, os.ErrNotExist) {
				err = errMissing
			}
			v.found(Problem{Step: VerifyTables, File: filepath.Base(path), Detail: err.Error()})
			continue
		}
		v.Tables++
		v.TableBytes += info.Size()
	}
	v.o.Progress(VerifyTables, int64(len(ids)), int64(len(ids)))
	return nil
}
