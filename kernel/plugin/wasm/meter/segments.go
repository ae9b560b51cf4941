package meter

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// joinGap is how many zeros between two data segments are written out rather than
// kept as the border of two segments, each of which costs wazero more than that in
// memory, for as long as the module is loaded.
const joinGap = 128

// joinData joins the segments of a data section that stand close to each other:
// Go's linker writes one for each run of bytes that are not zero, tens of thousands
// of them. What a fresh memory holds afterwards is the same. A section that has
// anything but active segments at fixed addresses, or two that overlap, stays as
// it is.
func joinData(body []byte) []byte {
	type segment struct {
		from uint64
		data []byte
	}
	var all []segment
	c := &cursor{data: body}
	for n := c.u32(); n > 0; n-- {
		if c.u32() != 0 || c.byte() != 0x41 {
			return body
		}
		from := uint32(c.i32())
		if c.byte() != 0x0b {
			return body
		}
		all = append(all, segment{uint64(from), c.take(c.u32())})
	}
	if c.more() {
		c.fail("bytes behind the data segments")
	}
	// Where none overlap, their order says nothing.
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Compare(a.from, b.from) })
	var joined []segment
	end, filled := uint64(0), 0
	for _, s := range all {
		if s.from < end {
			return body
		}
		gap := s.from - end
		end = s.from + uint64(len(s.data))
		// What is filled is bounded: a module of many tiny segments must not become
		// a multiple of itself.
		if k := len(joined) - 1; k >= 0 && gap <= joinGap && filled+int(gap) <= 2*len(body) {
			filled += int(gap)
			joined[k].data = append(append(joined[k].data, make([]byte, gap)...), s.data...)
			continue
		}
		joined = append(joined, segment{s.from, slices.Clone(s.data)})
	}
	out := binary.AppendUvarint(make([]byte, 0, len(body)+filled), uint64(len(joined)))
	for _, s := range joined {
		out = append(appendSigned(append(out, 0, 0x41), int32(uint32(s.from))), 0x0b)
		out = append(binary.AppendUvarint(out, uint64(len(s.data))), s.data...)
	}
	return out
}

// i32 reads a signed number of 32 bits.
func (c *cursor) i32() int32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := c.byte()
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			if shift < 28 && b&0x40 != 0 {
				v |= ^uint32(0) << (shift + 7)
			}
			return int32(v)
		}
	}
	c.fail("number")
	return 0
}
