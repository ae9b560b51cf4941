package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/y"
)

// watermarkFile keeps the last revision that is known to be durable. A log that is damaged in its midst reads like one
// that a crash has torn at its end; the watermark tells them apart, and a lost file from an older state. It is written
// after each group and not synced: after a power cut it may say less than it could, never more.
const watermarkFile = "COMMITTED"

// watermark has eight bytes of revision and four of checksum.
type watermark struct {
	f *os.File
	// revision is what the file said when it was opened, 0 when there was none.
	revision uint64
}

func openWatermark(dir string) (*watermark, error) {
	f, err := os.OpenFile(filepath.Join(dir, watermarkFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	w := &watermark{f: f}
	b := make([]byte, 12)
	// One that is not whole was never synced or is damaged itself; it says nothing then.
	if _, err := f.ReadAt(b, 0); err == nil && crc32.Checksum(b[:8], y.CastagnoliCrcTable) == binary.BigEndian.Uint32(b[8:]) {
		w.revision = binary.BigEndian.Uint64(b)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// check compares the watermark with what the database has.
func (w *watermark) check(dir string, current uint64) error {
	if current >= w.revision {
		return nil
	}
	return &CorruptError{Dir: dir, Revision: w.revision, Err: fmt.Errorf(
		"the log ends at revision %d and revision %d was acknowledged; to go on without what is lost, remove the file %s instead",
		current, w.revision, watermarkFile)}
}

// set notes that everything up to revision is durable.
func (w *watermark) set(revision uint64) error {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], revision)
	binary.BigEndian.PutUint32(b[8:], crc32.Checksum(b[:8], y.CastagnoliCrcTable))
	_, err := w.f.WriteAt(b[:], 0)
	return err
}

func (w *watermark) close() error {
	if w == nil {
		return nil
	}
	return w.f.Close()
}
