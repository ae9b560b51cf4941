package store

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// template is a text by which values are compressed that have much in common with it. It takes no window over the value
// itself, as general compressors do, whose tables would cost more to clear than a value of a kilobyte costs to compress.
type template struct {
	text []byte
	// places has for the hash of six bytes the last place in text where they are.
	places *[1 << placeBits]uint16
}

const (
	placeBits   = 12
	fewestSame  = 6
	maxTemplate = 1 << 16
)

// newTemplate makes one that can compress; one that only expands needs no places.
func newTemplate(text []byte) template {
	m := template{text: text, places: new([1 << placeBits]uint16)}
	for i := 0; i+8 <= len(text); i++ {
		m.places[place(binary.LittleEndian.Uint64(text[i:]))] = uint16(i)
	}
	return m
}

// place is the hash of the first six of eight bytes.
func place(b uint64) uint64 { return b << 16 * 0x9e3779b97f4a7c15 >> (64 - placeBits) }

// compress appends to b the value as what it has in common with the text and what lies between:
//
//	uvarint size | uvarint n, n bytes | uvarint n, varint: n bytes of the text, so far behind the former ones | ...
//
// It ends with bytes of its own, be they none.
func (m template) compress(b, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(value)))
	// done is what b has of the value, last where in the text that ended.
	done, last := 0, 0
	for at := 0; at+8 <= len(value); {
		next := binary.LittleEndian.Uint64(value[at:])
		// A field that differs is often as long as that of the text.
		from := last + at - done
		if !m.has(from, next) {
			if from = int(m.places[place(next)]); !m.has(from, next) {
				at += 1 + (at-done)>>3 // what is skipped is looked at again, backwards
				continue
			}
		}
		for at > done && from > 0 && value[at-1] == m.text[from-1] {
			at--
			from--
		}
		n := inCommon(value[at:], m.text[from:])
		b = binary.AppendUvarint(b, uint64(at-done))
		b = append(b, value[done:at]...)
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendVarint(b, int64(from-last))
		at += n
		done, last = at, from+n
	}
	b = binary.AppendUvarint(b, uint64(len(value)-done))
	return append(b, value[done:]...)
}

// has says whether six bytes stand at a place of the text.
func (m template) has(from int, b uint64) bool {
	return from+8 <= len(m.text) && (binary.LittleEndian.Uint64(m.text[from:])^b)<<16 == 0
}

// inCommon counts the bytes that two texts have in common from their beginning.
func inCommon(a, b []byte) (n int) {
	for n+8 <= len(a) && n+8 <= len(b) {
		if differ := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
		n += 8
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// expanded is the size of what was compressed.
func expanded(b []byte) (size int, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > largestPacked {
		return 0, nil, fmt.Errorf("compressed value of an impossible size: %w", errCorrupt)
	}
	return int(n), b[used:], nil
}

// expand is the reverse of compress. It takes any input.
func (m template) expand(b []byte) (value []byte, err error) {
	size, b, err := expanded(b)
	if err != nil {
		return nil, err
	}
	value = make([]byte, 0, size)
	for last := 0; ; {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) || n > uint64(size-len(value)) {
			break
		}
		b = b[used:]
		value, b = append(value, b[:n]...), b[n:]
		if len(value) == size && len(b) == 0 {
			return value, nil
		}
		n, used = binary.Uvarint(b)
		if used <= 0 || n == 0 || n > uint64(size-len(value)) {
			break
		}
		behind, more := binary.Varint(b[used:])
		if more <= 0 || behind < -maxTemplate || behind > maxTemplate {
			break
		}
		b = b[used+more:]
		from := last + int(behind)
		if from < 0 || from > len(m.text) || n > uint64(len(m.text)-from) {
			break
		}
		last = from + int(n)
		value = append(value, m.text[from:last]...)
	}
	return nil, fmt.Errorf("compressed value: %w", errCorrupt)
}
