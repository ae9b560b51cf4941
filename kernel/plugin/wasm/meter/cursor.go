package meter

import (
	"fmt"
)

// cursor reads the binary format; it panics with errModule where there is
// less than it needs, which Rewrite turns into an error.
type cursor struct {
	data  []byte
	at    int
	calls bool // a call was seen
	// straight: nothing so far branches, returns or calls; headed: a loop was met
	// like that, so that the function cannot run without running its head.
	straight, headed bool
}

func (c *cursor) fail(what string) {
	panic(fmt.Errorf("%w: %s at byte %d", errModule, what, c.at))
}

func (c *cursor) more() bool { return c.at < len(c.data) }

func (c *cursor) byte() byte {
	if c.at >= len(c.data) {
		c.fail("truncated")
	}
	c.at++
	return c.data[c.at-1]
}

func (c *cursor) take(n uint32) []byte {
	if uint64(n) > uint64(len(c.data)-c.at) {
		c.fail("truncated")
	}
	c.at += int(n)
	return c.data[c.at-int(n) : c.at]
}

func (c *cursor) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := c.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v>>32 != 0 {
				break
			}
			return uint32(v)
		}
	}
	c.fail("number")
	return 0
}

// leb skips a signed number of up to 64 bits.
func (c *cursor) leb() {
	for range 10 {
		if c.byte() < 0x80 {
			return
		}
	}
	c.fail("number")
}

func (c *cursor) limits() {
	flags := c.byte()
	c.u32()
	if flags&1 != 0 {
		c.u32()
	}
}

// What an instruction may touch much of.
const (
	onNothing = iota
	onMemory
	onTable
)

// bulk skips the rest of a 0xfc instruction and says what it may touch much of.
func (c *cursor) bulk() int {
	switch sub := c.u32(); {
	case sub <= 7:
		return onNothing
	case sub == 8 || sub == 10:
		c.u32()
		c.u32()
		return onMemory
	case sub == 11:
		c.u32()
		return onMemory
	case sub == 12 || sub == 14:
		c.u32()
		c.u32()
		return onTable
	case sub == 9 || sub == 13 || sub == 16:
		c.u32()
		return onNothing
	case sub == 15:
		// Nothing else bounds the memory of tables.
		c.fail("table.grow, which is not granted:")
	case sub == 17:
		c.u32()
		return onTable
	}
	c.fail("instruction 0xfc")
	return onNothing
}

// vector skips the rest of a 0xfd instruction.
func (c *cursor) vector() {
	switch sub := c.u32(); {
	case sub <= 11 || sub == 92 || sub == 93:
		c.u32()
		c.u32()
	case sub == 12 || sub == 13:
		c.take(16)
	case sub >= 21 && sub <= 34:
		c.byte()
	case sub >= 84 && sub <= 91:
		c.u32()
		c.u32()
		c.byte()
	case sub > 255:
		c.fail("instruction 0xfd")
	}
}

// appendSigned appends a signed LEB128 number.
func appendSigned(out []byte, v int32) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
