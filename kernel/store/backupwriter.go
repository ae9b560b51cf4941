package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// backupWriter writes blocks and sums up.
type backupWriter struct {
	w     io.Writer
	sum   hash.Hash
	block []byte
	end   BackupEnd
	// written is called for every block with the bytes written so far.
	written func(total int64)
	total   int64
}

func newBackupWriter(w io.Writer, h BackupHeader, written func(int64)) (*backupWriter, error) {
	b := &backupWriter{w: w, sum: sha256.New(), written: written}
	head := binary.BigEndian.AppendUint32([]byte(backupMagic), backupVersion)
	if err := b.write(head); err != nil {
		return nil, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return b, b.writeBlock(blockHeader, text)
}

func (b *backupWriter) write(p []byte) error {
	b.sum.Write(p)
	n, err := b.w.Write(p)
	b.total += int64(n)
	if err == nil && b.written != nil {
		b.written(b.total)
	}
	return err
}

func (b *backupWriter) writeBlock(kind byte, payload []byte) error {
	out := make([]byte, 0, len(payload)+9)
	out = append(out, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(len(payload)))
	out = append(out, payload...)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	return b.write(out)
}

func (b *backupWriter) add(r *Record) error {
	if r.State {
		b.end.Keys++
	} else {
		b.end.Changes++
	}
	b.block = appendRecord(b.block, r)
	if len(b.block) >= blockTarget {
		return b.flush()
	}
	return nil
}

func (b *backupWriter) flush() error {
	if len(b.block) == 0 {
		return nil
	}
	err := b.writeBlock(blockRecords, b.block)
	b.block = b.block[:0]
	return err
}

func (b *backupWriter) close() (BackupEnd, error) {
	if err := b.flush(); err != nil {
		return b.end, err
	}
	b.end.SHA256 = fmt.Sprintf("%x", b.sum.Sum(nil))
	text, err := json.Marshal(b.end)
	if err != nil {
		return b.end, err
	}
	return b.end, b.writeBlock(blockEnd, text)
}

// fault ends a backup that cannot be finished, so that its reader learns the reason.
func (b *backupWriter) fault(err error) error { return b.writeBlock(blockFault, []byte(err.Error())) }

// BackupWriter writes a backup of what is not in a store, such as another database's content.
type BackupWriter struct{ w *backupWriter }

// NewBackupWriter writes the header.
func NewBackupWriter(w io.Writer, h BackupHeader) (*BackupWriter, error) {
	b, err := newBackupWriter(w, h, nil)
	return &BackupWriter{b}, err
}

// Add writes a record: those of the state first, in the order of their keys, then changes in that of revisions.
func (b *BackupWriter) Add(r *Record) error { return b.w.add(r) }

// Close writes the end.
func (b *BackupWriter) Close() (BackupEnd, error) { return b.w.close() }
