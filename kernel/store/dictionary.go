package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/s2"
)

const (
	metaDictionary = "dictionary"
	// Values of other sizes are stored as they are: what is shorter has little to gain, and what is longer has little
	// in common with any sample.
	smallestPacked = 64
	largestPacked  = 32 << 10
	// maxDictionaries bounds those that a store keeps: a program whose samples have changed adds its own.
	maxDictionaries = 256
)

// dictionaries are what values are compressed by, in S2. The database keeps each that it was ever given, under a
// number, since values refer to it for as long as they live; so it can be read without the configuration that it was
// written with. They change in load alone.
type dictionaries struct {
	known map[uint64]*s2.Dict
	// current are those that new values are compressed by, the longest prefixes first.
	current []dictionary
}

type dictionary struct {
	prefix string
	number uint64
	*s2.Dict
}

// pack gives what is stored for a value of a key, appended to b, and its mark: uvarint number of the dictionary, then
// the value by it. Mark 0 says that the value is stored as it is, since it gains too little.
func (d *dictionaries) pack(b []byte, key string, value []byte) (packed []byte, mark byte) {
	if len(value) < smallestPacked || len(value) > largestPacked {
		return b, 0
	}
	for i := range d.current {
		c := &d.current[i]
		if !strings.HasPrefix(key, c.prefix) {
			continue
		}
		packed = slices.Grow(binary.AppendUvarint(b, c.number), s2.MaxEncodedLen(len(value)))
		packed = packed[:len(packed)+len(c.Encode(packed[len(packed):], value))]
		// Whoever reads it has to pay for it, so a little is no gain.
		if len(packed)-len(b) > len(value)-len(value)/8 {
			return b, 0
		}
		return packed, markPacked
	}
	return b, 0
}

// unpack is the reverse of pack. It takes any input.
func (d *dictionaries) unpack(packed []byte) (value []byte, err error) {
	number, n := binary.Uvarint(packed)
	if n <= 0 {
		return nil, fmt.Errorf("value without the number of its dictionary: %w", errCorrupt)
	}
	by, ok := d.known[number]
	if !ok {
		return nil, fmt.Errorf("value by dictionary %d, which is missing: %w", number, errCorrupt)
	}
	if _, err := sizeOf(packed[n:]); err != nil {
		return nil, err
	}
	if value, err = by.Decode(nil, packed[n:]); err != nil {
		return nil, fmt.Errorf("compressed value: %w: %w", errCorrupt, err)
	}
	return value, nil
}

// unpackedSize is the size of the value that unpack gives.
func unpackedSize(packed []byte) (size int64, err error) {
	_, n := binary.Uvarint(packed)
	if n <= 0 {
		return 0, fmt.Errorf("value without the number of its dictionary: %w", errCorrupt)
	}
	return sizeOf(packed[n:])
}

// sizeOf is the size of what was compressed.
func sizeOf(compressed []byte) (int64, error) {
	size, err := s2.DecodedLen(compressed)
	if err != nil || size > largestPacked {
		return 0, fmt.Errorf("compressed value of an impossible size: %w", errCorrupt)
	}
	return int64(size), nil
}

// loadDictionaries reads those that the database has.
func (s *Store) loadDictionaries() error {
	s.dictionaries.known = map[uint64]*s2.Dict{}
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	prefix := metaKey(metaDictionary)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		number := it.Item().Key()[len(prefix):]
		text, err := storedValue(it.Item())
		if err != nil {
			return err
		}
		if len(number) != 8 {
			return fmt.Errorf("meta %s %x: %w", metaDictionary, number, errCorrupt)
		}
		by := s2.NewDict(text)
		if by == nil {
			return fmt.Errorf("meta %s %x: %w", metaDictionary, number, errCorrupt)
		}
		s.dictionaries.known[binary.BigEndian.Uint64(number)] = by
	}
	return nil
}

// keepDictionaries makes the configured ones current, and durable before a value may refer to them. Programs that know
// of no dictionaries must not read such a database, which is what its format says from here on.
func (s *Store) keepDictionaries(format uint64) error {
	d := &s.dictionaries
	var last uint64
	for number := range d.known {
		last = max(last, number)
	}
	for _, prefix := range slices.Sorted(maps.Keys(s.cfg.Dictionaries)) {
		text := s.cfg.Dictionaries[prefix]
		if len(text) < s2.MinDictSize || len(text) > s2.MaxDictSize {
			return fmt.Errorf("the dictionary for keys of %q has %d bytes, it may have %d to %d", prefix, len(text), s2.MinDictSize, s2.MaxDictSize)
		}
		by := s2.MakeDict(text, nil)
		stored := by.Bytes()
		var number uint64
		for n, known := range d.known {
			if bytes.Equal(known.Bytes(), stored) {
				number = n
			}
		}
		if number == 0 {
			if len(d.known) >= maxDictionaries {
				continue // values are stored as they are
			}
			if format < formatPacked {
				if err := s.put(badger.NewEntry(metaKey("format"), binary.BigEndian.AppendUint64(nil, formatPacked))); err != nil {
					return err
				}
				format = formatPacked
			}
			last++
			number = last
			if err := s.put(badger.NewEntry(dictionaryKey(number), stored)); err != nil {
				return err
			}
			d.known[number] = by
		}
		d.current = append(d.current, dictionary{prefix, number, by})
	}
	slices.SortFunc(d.current, func(a, b dictionary) int { return len(b.prefix) - len(a.prefix) })
	return nil
}

func dictionaryKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(metaKey(metaDictionary), number)
}
