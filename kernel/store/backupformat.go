package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"
)

// A backup is
//
//	magic, 8 bytes | format version, 4 bytes | blocks
//
// and a block is
//
//	type, 1 byte | length of the payload, 4 bytes | payload | CRC-32C of all before, 4 bytes
//
// with numbers in big-endian order. The first block is the header, the last is the end, which carries a SHA-256 of
// every byte before it; records lie between. A block of type fault in place of the end says why there is none.
const (
	backupMagic   = "PINTLEBK"
	backupVersion = 1

	blockHeader  = 'H'
	blockRecords = 'R'
	blockEnd     = 'E'
	blockFault   = 'F'

	// blockTarget is the size from which a block of records is written out.
	blockTarget = 256 << 10
	// maxBlockBytes is the largest block that is read: one record of the largest key and value, and a target before it.
	maxBlockBytes = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kinds of backups.
const (
	// BackupFull holds the state at Header.From and the changes after it.
	BackupFull = "full"
	// BackupIncremental holds the changes after Header.From.
	BackupIncremental = "incremental"
)

// BackupHeader says what a backup holds. It is JSON in the file.
type BackupHeader struct {
	// Kind is BackupFull or BackupIncremental.
	Kind string `json:"kind"`
	// Store is the id of the store it was taken from; only backups of one store make a chain.
	Store string `json:"store"`
	// From is the revision of the state that a full backup begins with, or up to which an incremental one's
	// predecessors must reach. Revision is the one that it ends with. Every revision between can be restored.
	From     uint64 `json:"from"`
	Revision uint64 `json:"revision"`
	// Created is when it was begun.
	Created time.Time `json:"created"`
	// Estimate is about how many records follow, for a progress display.
	Estimate int64 `json:"estimate,omitempty"`
}

// BackupEnd is what the last block says of the whole. It is JSON in the file.
type BackupEnd struct {
	// Keys is the number of values in the state of a full backup, Changes that of the changes after it.
	Keys    int64 `json:"keys"`
	Changes int64 `json:"changes"`
	// SHA256 is that of every byte before the last block, in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// Record is one entry of a backup: a value of the state, or a change.
type Record struct {
	// State marks a value of the state that a full backup begins with; Type then is Created.
	State    bool
	Type     EventType
	Key      string
	Revision uint64
	// Previous is the key's revision before the change, 0 when it had no value.
	Previous uint64
	// Expires is when the value ends, milliseconds since 1970; 0: never.
	Expires int64
	// Value is nil for Deleted.
	Value []byte
}

// BackupError says that a backup cannot be used.
type BackupError struct {
	// Name is the file's, empty when it is not known.
	Name string
	// Offset is where in the file the fault was met.
	Offset int64
	Err    error
}

func (e *BackupError) Error() string {
	name := "backup"
	if e.Name != "" {
		name += " " + e.Name
	}
	return fmt.Sprintf("%s, at byte %d: %v", name, e.Offset, e.Err)
}

func (e *BackupError) Unwrap() error { return e.Err }

const stateMark = 0x80

// appendRecord encodes a record:
//
//	byte kind, with stateMark | uvarints revision, previous, expires | uvarint len(key), key | uvarint len(value), value
func appendRecord(b []byte, r *Record) []byte {
	kind := byte(r.Type)
	if r.State {
		kind |= stateMark
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, r.Revision)
	b = binary.AppendUvarint(b, r.Previous)
	b = binary.AppendUvarint(b, uint64(r.Expires))
	b = binary.AppendUvarint(b, uint64(len(r.Key)))
	b = append(b, r.Key...)
	b = binary.AppendUvarint(b, uint64(len(r.Value)))
	return append(b, r.Value...)
}

// parseRecord is the reverse of appendRecord and takes any input. The value shares b's memory.
func parseRecord(b []byte) (r Record, rest []byte, err error) {
	kind := b[0]
	b = b[1:]
	r.State, r.Type = kind&stateMark != 0, EventType(kind&^stateMark)
	if r.Type > Deleted || r.State && r.Type != Created {
		return r, nil, errors.New("unknown kind of record")
	}
	ok := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	bytes := func() []byte {
		n := number()
		if !ok || n > uint64(len(b)) {
			ok = false
			return nil
		}
		out := b[:n:n]
		b = b[n:]
		return out
	}
	r.Revision, r.Previous = number(), number()
	r.Expires = int64(number())
	r.Key = string(bytes())
	r.Value = bytes()
	switch {
	case !ok:
		return r, nil, errors.New("record ends early")
	case r.Key == "" || len(r.Key) > maxKeyBytes:
		return r, nil, fmt.Errorf("key of %d bytes", len(r.Key))
	case r.Expires < 0:
		return r, nil, errors.New("impossible time of expiry")
	case r.Type == Deleted && (len(r.Value) > 0 || r.Expires != 0):
		return r, nil, errors.New("deleted key with a value")
	}
	if r.Type == Deleted {
		r.Value = nil
	}
	return r, b, nil
}

// BackupReader reads a backup and checks everything on the way: it gives no record of a damaged block, and io.EOF
// only when the whole is as it was written. It takes any input and needs the memory of one block.
type BackupReader struct {
	r      *bufio.Reader
	name   string
	sum    hash.Hash
	offset int64
	header BackupHeader
	end    BackupEnd
	block  []byte
	err    error

	seen    BackupEnd
	lastKey string
	// last is the revision of the last change.
	last uint64
}

// IsBackup reports whether a file that begins with head is meant to be a backup.
func IsBackup(head []byte) bool { return bytes.HasPrefix(head, []byte(backupMagic)) }

// NewBackupReader reads the header. name stands in errors. Error: *BackupError.
func NewBackupReader(r io.Reader, name string) (*BackupReader, error) {
	b := &BackupReader{r: bufio.NewReaderSize(r, 64<<10), name: name, sum: sha256.New()}
	head := make([]byte, len(backupMagic)+4)
	if _, err := io.ReadFull(b.r, head); err != nil || string(head[:len(backupMagic)]) != backupMagic {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, b.failed(err)
		}
		return nil, b.failed(errors.New("it is not a backup of pintle store backup"))
	}
	b.sum.Write(head)
	b.offset = int64(len(head))
	if v := binary.BigEndian.Uint32(head[len(backupMagic):]); v != backupVersion {
		return nil, b.failed(fmt.Errorf("its format is %d, this program knows %d: use the program that wrote it, or a newer one", v, backupVersion))
	}
	kind, payload, err := b.readBlock()
	if err != nil {
		return nil, err
	}
	h := &b.header
	switch {
	case kind != blockHeader:
		err = errors.New("it has no header")
	case json.Unmarshal(payload, h) != nil:
		err = errors.New("its header cannot be read")
	case h.Kind != BackupFull && h.Kind != BackupIncremental:
		err = fmt.Errorf("unknown kind %q", h.Kind)
	case h.From > h.Revision || h.Revision == 0:
		err = fmt.Errorf("impossible revisions %d to %d", h.From, h.Revision)
	case h.Store == "":
		err = errors.New("its header names no store")
	}
	if err != nil {
		return nil, b.failed(err)
	}
	b.last = h.From
	return b, nil
}

// Header is what the backup says of itself.
func (b *BackupReader) Header() BackupHeader { return b.header }

// End is what the last block says; valid after Next returned io.EOF.
func (b *BackupReader) End() BackupEnd { return b.end }

// Offset is the number of bytes read.
func (b *BackupReader) Offset() int64 { return b.offset }

func (b *BackupReader) failed(err error) error {
	b.err = &BackupError{Name: b.name, Offset: b.offset, Err: err}
	return b.err
}

// readBlock returns the next block once its checksum is right. The payload is valid until the next call.
func (b *BackupReader) readBlock() (kind byte, payload []byte, err error) {
	ended := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends early: it was cut off, take it again")
		}
		return b.failed(err)
	}
	var head [5]byte
	if _, err := io.ReadFull(b.r, head[:]); err != nil {
		return 0, nil, ended(err)
	}
	length := int(binary.BigEndian.Uint32(head[1:]))
	if length > maxBlockBytes {
		return 0, nil, b.failed(fmt.Errorf("damaged: block of %d bytes", length))
	}
	// The length is not to be trusted before the checksum: what is kept grows with what is there.
	buf := b.block[:0]
	for want := length + 4; want > 0; {
		n := min(want, 1<<20)
		at := len(buf)
		buf = append(buf, make([]byte, n)...)
		if _, err := io.ReadFull(b.r, buf[at:]); err != nil {
			return 0, nil, ended(err)
		}
		want -= n
	}
	payload = buf[:length]
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, payload)
	if sum != binary.BigEndian.Uint32(buf[length:]) {
		return 0, nil, b.failed(errors.New("damaged: the checksum of a block is wrong"))
	}
	if head[0] != blockEnd {
		b.sum.Write(head[:])
		b.sum.Write(buf)
	}
	b.offset += int64(len(head) + len(buf))
	b.block = buf
	return head[0], payload, nil
}

// Blocks calls visit with every record, block by block, and returns when the whole was read and is right. Values are
// valid until visit returns. Errors: *BackupError, or visit's.
func (b *BackupReader) Blocks(visit func(*Record) error) error {
	if b.err != nil {
		return b.err
	}
	for {
		kind, payload, err := b.readBlock()
		if err != nil {
			return err
		}
		switch kind {
		case blockRecords:
			if len(payload) == 0 {
				return b.failed(errors.New("damaged: empty block"))
			}
			for len(payload) > 0 {
				var r Record
				if r, payload, err = parseRecord(payload); err != nil {
					return b.failed(fmt.Errorf("damaged: %w", err))
				}
				if err := b.check(&r); err != nil {
					return b.failed(fmt.Errorf("damaged: %w", err))
				}
				if err := visit(&r); err != nil {
					return err
				}
			}
		case blockFault:
			return b.failed(fmt.Errorf("it was broken off when it was taken: %s", payload))
		case blockEnd:
			return b.finish(payload)
		default:
			return b.failed(fmt.Errorf("damaged: unknown block %q", kind))
		}
	}
}

// check holds a record against its place: the state comes first, by key; changes follow, by revision.
func (b *BackupReader) check(r *Record) error {
	h := &b.header
	if r.State {
		b.seen.Keys++
		switch {
		case h.Kind != BackupFull || b.seen.Changes > 0:
			return fmt.Errorf("key %q of the state is out of place", r.Key)
		case r.Key <= b.lastKey:
			return fmt.Errorf("key %q is out of order", r.Key)
		case r.Revision == 0 || r.Revision > h.From || r.Previous != 0:
			return fmt.Errorf("key %q has the impossible revision %d", r.Key, r.Revision)
		}
		b.lastKey = r.Key
		return nil
	}
	b.seen.Changes++
	switch {
	case r.Revision <= b.last || r.Revision > h.Revision:
		return fmt.Errorf("revision %d is out of order", r.Revision)
	case r.Previous >= r.Revision || (r.Previous == 0) != (r.Type == Created):
		return fmt.Errorf("revision %d has the impossible predecessor %d", r.Revision, r.Previous)
	}
	b.last = r.Revision
	return nil
}

func (b *BackupReader) finish(payload []byte) error {
	if err := json.Unmarshal(payload, &b.end); err != nil {
		return b.failed(errors.New("damaged: its end cannot be read"))
	}
	switch {
	case b.end.SHA256 != fmt.Sprintf("%x", b.sum.Sum(nil)):
		return b.failed(errors.New("damaged: the checksum of the whole is wrong"))
	case b.end.Keys != b.seen.Keys || b.end.Changes != b.seen.Changes:
		return b.failed(fmt.Errorf("damaged: %d keys and %d changes, its end says %d and %d",
			b.seen.Keys, b.seen.Changes, b.end.Keys, b.end.Changes))
	}
	if _, err := b.r.ReadByte(); !errors.Is(err, io.EOF) {
		return b.failed(errors.New("damaged: bytes follow its end"))
	}
	return nil
}
