package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

const (
	discardFile     = "DISCARD"
	discardFileSize = 1 << 20
	// orphanDir hides tables that the manifest does not know from Badger, which would delete them.
	orphanDir = "unknown"
	// tornSuffix is added to a copy of the manifest before its torn end is cut off.
	tornSuffix = ".torn"
)

// inspection is what was found in a directory before Badger opened it.
type inspection struct {
	dir string
	// orphans are tables that the manifest does not know: a crash left them before they were entered, with their
	// content elsewhere as well; or the manifest lost them. Those that it has dropped are none.
	orphans []string
	keys    *badger.KeyRegistry
	torn    bool
}

// inspect checks every table of a directory and its manifest before Badger sees them, because Badger leaves out a table
// of which a checksum does not fit, ends the process at others, and deletes tables that the manifest does not know. It
// removes what a crash may leave half made and Badger does not take. Error: *CorruptError.
func inspect(opt badger.Options) (*inspection, error) {
	in := &inspection{dir: opt.Dir}
	entries, err := os.ReadDir(opt.Dir)
	if err != nil {
		return nil, err
	}
	manifest, err := readManifest(opt)
	if in.torn = errors.Is(err, errTornManifest); in.torn {
		if err = cutManifest(opt); err == nil {
			manifest, err = readManifest(opt)
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		manifest, err = badger.Manifest{}, nil
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".sst") {
				err = errMissing
			}
		}
	}
	if err != nil {
		return nil, &CorruptError{Dir: opt.Dir, File: badger.ManifestFilename, Err: err}
	}
	if in.keys, err = openKeys(opt); err != nil {
		return nil, err
	}
	dropped, anew, err := droppedTables(opt)
	if err != nil {
		return nil, err
	}
	for id, t := range manifest.Tables {
		path := tablePath(opt.Dir, id)
		if err := checkTable(path, t, in.keys); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = errMissing
			}
			return nil, &CorruptError{Dir: opt.Dir, File: filepath.Base(path), Err: err}
		}
	}
	for _, e := range entries {
		path := filepath.Join(opt.Dir, e.Name())
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		switch filepath.Ext(path) {
		case ".mem", ".vlog":
			// Made and not yet sized, or emptied and not yet removed: in either case without content of its own.
			if info.Size() == 0 {
				err = os.Remove(path)
			}
		case ".sst":
			id, ok := table.ParseFileID(path)
			// A compaction has replaced a dropped one, and a crash kept it. A manifest that was written anew says of
			// none that it was dropped.
			if _, known := manifest.Tables[id]; ok && !known && !dropped[id] && !anew {
				if err = os.MkdirAll(filepath.Join(opt.Dir, orphanDir), 0o700); err == nil {
					err = os.Rename(path, filepath.Join(opt.Dir, orphanDir, e.Name()))
				}
			}
		}
		if e.Name() == discardFile && info.Size() != discardFileSize {
			err = os.Remove(path) // hints for the collection of the value log only; Badger cannot take a short one
		}
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", path, err)
		}
	}
	in.orphans, err = filepath.Glob(filepath.Join(opt.Dir, orphanDir, "*.sst"))
	return in, err
}

// settle checks that the database has everything of the orphans, and removes them. To be called before anything may be
// dropped from the database.
func (in *inspection) settle(s *Store) error {
	for _, path := range in.orphans {
		if err := in.settleOrphan(s, path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if len(in.orphans) > 0 {
		if err := os.Remove(filepath.Join(in.dir, orphanDir)); err != nil {
			return err
		}
	}
	if in.torn {
		return os.Remove(filepath.Join(in.dir, badger.ManifestFilename+tornSuffix))
	}
	return nil
}

func (in *inspection) settleOrphan(s *Store, path string) (err error) {
	t, closeTable, err := openOrphan(path, in.keys)
	if err != nil {
		return nil // not whole, so it was never entered
	}
	defer closeTable()
	defer s.guard(arm(), "", 0, &err)
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key, version := y.ParseKey(it.Key()), y.ParseTs(it.Key())
		found, err := s.hasVersion(key, version)
		if err != nil {
			return err
		}
		if !found {
			e := &CorruptError{Dir: in.dir, File: badger.ManifestFilename, Revision: version,
				Err: fmt.Errorf("it does not know of table %s, which alone has this", filepath.Base(path))}
			if len(key) > 0 && key[0] == spaceData {
				e.Key = string(key[1:])
			}
			return e
		}
	}
	return nil
}

// openOrphan opens a table of which no manifest says how it is encrypted.
func openOrphan(path string, keys *badger.KeyRegistry) (t *table.Table, closeTable func(), err error) {
	m := badger.TableManifest{Compression: options.None}
	for {
		if t, closeTable, err = openTable(path, m, keys); err == nil || keys == nil {
			return t, closeTable, err
		}
		m.KeyID++
		if _, unknown := keys.DataKey(m.KeyID); unknown != nil {
			return nil, nil, err
		}
	}
}

func tablePath(dir string, id uint64) string { return table.NewFilename(id, dir) }

// openKeys opens the registry of keys by which tables are encrypted; nil when nothing is encrypted.
func openKeys(opt badger.Options) (*badger.KeyRegistry, error) {
	if len(opt.EncryptionKey) == 0 {
		return nil, nil
	}
	return badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: opt.Dir, ReadOnly: true, EncryptionKey: opt.EncryptionKey})
}

var errTornManifest = errors.New("its last record is torn")

// readManifest reads the list of tables. Errors: os.ErrNotExist, errTornManifest when just the last record does not
// fit, as a crash leaves it, or what else does not.
func readManifest(opt badger.Options) (manifest badger.Manifest, err error) {
	f, err := os.Open(filepath.Join(opt.Dir, badger.ManifestFilename))
	if err != nil {
		return manifest, err
	}
	defer f.Close()
	if good, size, err := manifestEnd(f); err != nil {
		return manifest, err
	} else if good < size {
		return manifest, errTornManifest
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return manifest, err
	}
	manifest, _, err = badger.ReplayManifestFile(f, opt.ExternalMagicVersion, opt)
	return manifest, err
}

// droppedTables gives the tables that the manifest says are dropped. anew says that it was written anew lately.
func droppedTables(opt badger.Options) (dropped map[uint64]bool, anew bool, err error) {
	b, err := os.ReadFile(filepath.Join(opt.Dir, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(b) < 8 {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	dropped = map[uint64]bool{}
	for first, rest := true, b[8:]; len(rest) >= 8; first = false {
		length := int64(binary.BigEndian.Uint32(rest))
		if length > int64(len(rest))-8 {
			break
		}
		var set pb.ManifestChangeSet
		if err := proto.Unmarshal(rest[8:8+length], &set); err != nil {
			return nil, false, &CorruptError{Dir: opt.Dir, File: badger.ManifestFilename, Err: err}
		}
		anew = anew || first && len(set.Changes) > 0
		for _, c := range set.Changes {
			if c.Op == pb.ManifestChange_DELETE {
				dropped[c.Id] = true
			}
		}
		rest = rest[8+length:]
	}
	return dropped, anew && len(dropped) == 0, nil
}

// manifestEnd finds where the records that fit end. It returns good < size when only the last does not.
func manifestEnd(f *os.File) (good, size int64, err error) {
	const header, record = 8, 8
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, 0, err
	}
	size = int64(len(b))
	if size < header {
		return 0, size, errors.New("it is cut off in its header")
	}
	for good = header; good < size; {
		rest := b[good:]
		if len(rest) < record {
			return good, size, nil
		}
		length := int64(binary.BigEndian.Uint32(rest))
		if length > int64(len(rest))-record {
			return good, size, nil
		}
		if crc32.Checksum(rest[record:record+length], y.CastagnoliCrcTable) != binary.BigEndian.Uint32(rest[4:]) {
			if record+length == int64(len(rest)) {
				return good, size, nil
			}
			return good, size, fmt.Errorf("record at byte %d: %w", good, errChecksum)
		}
		good += record + length
	}
	return good, size, nil
}

// cutManifest cuts off a torn last record. A copy stays until the start has succeeded.
func cutManifest(opt badger.Options) error {
	path := filepath.Join(opt.Dir, badger.ManifestFilename)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+tornSuffix, b, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	good, _, err := manifestEnd(f)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(good), f.Sync())
}
