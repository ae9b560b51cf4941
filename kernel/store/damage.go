package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"
)

// CorruptError says that something on disk is not what was written. What it touches is not served.
type CorruptError struct {
	Dir string
	// File is the damaged file's name below Dir, empty when it is not known.
	File string
	// Key and Revision are what was asked for or what was found damaged; empty and 0 when that is not known.
	Key      string
	Revision uint64
	// Err is what does not fit.
	Err error
}

func (e *CorruptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "data directory %s is damaged", e.Dir)
	if e.File != "" {
		fmt.Fprintf(&b, " in file %s", e.File)
	}
	switch {
	case e.Key != "" && e.Revision != 0:
		fmt.Fprintf(&b, ", which touches key %q at revision %d", e.Key, e.Revision)
	case e.Key != "":
		fmt.Fprintf(&b, ", which touches key %q", e.Key)
	case e.Revision != 0:
		fmt.Fprintf(&b, ", which touches revision %d", e.Revision)
	}
	fmt.Fprintf(&b, ": %v: restore a backup", e.Err)
	return b.String()
}

func (e *CorruptError) Unwrap() error { return e.Err }

// storedValue reads what is stored at an item. Badger gives an empty value, and tells only the log, when it cannot read
// the value log or a checksum there does not fit.
func storedValue(item *badger.Item) ([]byte, error) {
	stored, err := item.ValueCopy(nil)
	if err == nil && len(stored) == 0 && item.ValueSize() > 0 {
		err = errUnread
	}
	return stored, err
}

var (
	errUnread   = errors.New("its value cannot be read")
	errChecksum = errors.New("the checksum does not fit")
	errMissing  = errors.New("it is missing")
	errOther    = errors.New("another version is there")
)

// guard turns what reading damaged files does to a goroutine, a panic in Badger or a fault of a mapped page, into an
// error. To be deferred with the result of arm, which makes faults panics:
//
//	defer s.guard(arm(), key, revision, &err)
func (s *Store) guard(faults bool, key string, revision uint64, err *error) {
	debug.SetPanicOnFault(faults)
	if r := recover(); r != nil {
		text, _, _ := strings.Cut(fmt.Sprint(r), "\n")
		*err = s.damage(key, revision, fmt.Errorf("reading it failed: %s", text))
	}
}

func arm() (before bool) { return debug.SetPanicOnFault(true) }

// damage makes the error of a key that is not readable at a revision, and looks for the file.
func (s *Store) damage(key string, revision uint64, cause error) error {
	if already := new(CorruptError); errors.As(cause, &already) {
		return cause
	}
	if told := s.faults.unread(); errors.Is(cause, errUnread) && told != nil {
		cause = fmt.Errorf("%w: %s", errUnread, told)
	}
	e := &CorruptError{Dir: s.cfg.Dir, Key: key, Revision: revision, Err: cause}
	if e.File = valueFile(cause); e.File == "" && key != "" {
		var found error
		if e.File, found = s.damagedTable(dataKey(key)); found != nil {
			e.Err = found
		}
	}
	s.log.Error("damage found", "error", e)
	return e
}

// isDamage says whether reading failed because of what is on disk.
func isDamage(err error) bool {
	return errors.Is(err, errUnread) || errors.Is(err, errCorrupt) || errors.Is(err, y.ErrChecksumMismatch) || errors.Is(err, y.ErrEOF) || valueFile(err) != ""
}

var (
	valuePointerText = regexp.MustCompile(`(?:Fid:|with ID: )(\d+)`)
	valueErrorTexts  = []string{"value corrupted for vp", "Invalid read", "Invalid value pointer", "file with ID"}
)

// valueFile is the value log's file that Badger complains of.
func valueFile(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	for _, known := range valueErrorTexts {
		if strings.Contains(text, known) {
			if m := valuePointerText.FindStringSubmatch(text); m != nil {
				return fmt.Sprintf("%06s.vlog", m[1])
			}
			return "the value log"
		}
	}
	return ""
}

// damagedTable looks among the tables that may hold a key for one whose checksums do not fit.
func (s *Store) damagedTable(key []byte) (file string, err error) {
	opt := badgerOptions(s.cfg)
	manifest, err := readManifest(opt)
	if err != nil {
		return "MANIFEST", err
	}
	keys, err := openKeys(opt)
	if err != nil {
		return badger.KeyRegistryFileName, err
	}
	for _, t := range s.db.Tables() {
		if y.CompareKeys(y.KeyWithTs(key, 0), t.Left) < 0 || y.CompareKeys(y.KeyWithTs(key, 1<<63), t.Right) > 0 {
			continue
		}
		path := tablePath(s.cfg.Dir, t.ID)
		if err := checkTable(path, manifest.Tables[t.ID], keys); err != nil {
			return filepath.Base(path), err
		}
	}
	return "", nil
}
