package store

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Key spaces on disk.
const (
	spaceData    = 'd'
	spaceHistory = 'h'
	spaceMeta    = 'm'
)

// formatVersion is the version of what is encoded in this file, but for packed values.
const formatVersion = 1

// formatPacked is the format of a store that may have packed values. A store of a later format is refused.
const formatPacked = 2

// Marks in Badger's user meta byte of a data entry. The first two add eight bytes before the value each, in this order.
const (
	// markExpires: the time of expiry, milliseconds since 1970.
	markExpires byte = 1 << iota
	// markCopied: the entry repeats an older content (see recovery.go); the revision of that content.
	markCopied
	// markPacked: the value is compressed (dictionary.go).
	markPacked

	knownMarks = markExpires | markCopied | markPacked
)

var errCorrupt = errors.New("corrupt entry")

func dataKey(key string) []byte {
	b := make([]byte, 0, len(key)+1+8) // Badger appends the version, 8 bytes
	b = append(b, spaceData)
	return append(b, key...)
}

func historyKey(last uint64) []byte {
	b := make([]byte, 9, 17)
	b[0] = spaceHistory
	binary.BigEndian.PutUint64(b[1:], last)
	return b
}

func parseHistoryKey(b []byte) (last uint64, err error) {
	if len(b) != 9 || b[0] != spaceHistory {
		return 0, fmt.Errorf("history key %x: %w", b, errCorrupt)
	}
	return binary.BigEndian.Uint64(b[1:]), nil
}

func metaKey(name string) []byte { return append([]byte{spaceMeta}, name...) }

// encodeValue gives what is stored for a value and its marks. Without expiry and copy it is the value itself.
func encodeValue(value []byte, expires int64, copiedFrom uint64) (stored []byte, marks byte) {
	if expires == 0 && copiedFrom == 0 {
		return value, 0
	}
	stored = make([]byte, 0, len(value)+16)
	if expires != 0 {
		marks |= markExpires
		stored = binary.BigEndian.AppendUint64(stored, uint64(expires))
	}
	if copiedFrom != 0 {
		marks |= markCopied
		stored = binary.BigEndian.AppendUint64(stored, copiedFrom)
	}
	return append(stored, value...), marks
}

// decodeValue is the reverse of encodeValue; version is Badger's version of the entry. The value shares stored's memory,
// and is packed still when its mark says so.
func decodeValue(stored []byte, marks byte, version uint64) (value []byte, revision uint64, expires int64, err error) {
	revision = version
	if marks&^knownMarks != 0 {
		return nil, 0, 0, fmt.Errorf("value with unknown marks %x: %w", marks, errCorrupt)
	}
	if marks&markExpires != 0 {
		if len(stored) < 8 {
			return nil, 0, 0, fmt.Errorf("value without its expiry: %w", errCorrupt)
		}
		expires = int64(binary.BigEndian.Uint64(stored))
		stored = stored[8:]
	}
	if marks&markCopied != 0 {
		if len(stored) < 8 {
			return nil, 0, 0, fmt.Errorf("value without its revision: %w", errCorrupt)
		}
		revision = binary.BigEndian.Uint64(stored)
		stored = stored[8:]
	}
	return stored, revision, expires, nil
}

// change is one revision of a group as its history entry keeps it.
type change struct {
	kind EventType
	key  string
	// previous is the key's revision before, 0 when it had no value.
	previous uint64
}

// encodeGroup gives the history entry of the consecutive revisions first, first+1, ...
//
//	byte 1 | uvarint first | uvarint count | count times: byte kind, uvarint previous, uvarint len(key), key
//
// A change of kind Void (a revision that was undone) has neither previous nor key.
func encodeGroup(first uint64, changes []change) []byte {
	size := 1 + 2*binary.MaxVarintLen64
	for i := range changes {
		size += 1 + 2*binary.MaxVarintLen64 + len(changes[i].key)
	}
	b := make([]byte, 0, size)
	b = append(b, formatVersion)
	b = binary.AppendUvarint(b, first)
	b = binary.AppendUvarint(b, uint64(len(changes)))
	for i := range changes {
		c := &changes[i]
		b = append(b, byte(c.kind))
		if c.kind == Void {
			continue
		}
		b = binary.AppendUvarint(b, c.previous)
		b = binary.AppendUvarint(b, uint64(len(c.key)))
		b = append(b, c.key...)
	}
	return b
}

// decodeGroup is the reverse of encodeGroup. It takes any input.
func decodeGroup(b []byte) (first uint64, changes []change, err error) {
	corrupt := func(what string) (uint64, []change, error) {
		return 0, nil, fmt.Errorf("history entry: %s: %w", what, errCorrupt)
	}
	if len(b) == 0 || b[0] != formatVersion {
		return corrupt("unknown format")
	}
	b = b[1:]
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	first, ok := next()
	if !ok {
		return corrupt("no first revision")
	}
	count, ok := next()
	if !ok || count == 0 || count > uint64(len(b)) || first+count < first {
		return corrupt("impossible count")
	}
	changes = make([]change, count)
	for i := range changes {
		if len(b) == 0 {
			return corrupt("ends early")
		}
		c := &changes[i]
		c.kind = EventType(b[0])
		b = b[1:]
		if c.kind == Void {
			continue
		}
		if c.kind > Void {
			return corrupt("unknown kind of change")
		}
		if c.previous, ok = next(); !ok {
			return corrupt("no previous revision")
		}
		n, ok := next()
		if !ok || n > uint64(len(b)) {
			return corrupt("key ends early")
		}
		c.key = string(b[:n])
		b = b[n:]
	}
	if len(b) != 0 {
		return corrupt("bytes after the end")
	}
	return first, changes, nil
}
