package meter

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// dataSection encodes active segments.
func dataSection(at []uint32, data [][]byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(at)))
	for i := range at {
		out = append(appendSigned(append(out, 0, 0x41), int32(at[i])), 0x0b)
		out = append(binary.AppendUvarint(out, uint64(len(data[i]))), data[i]...)
	}
	return out
}

// fill lays the segments of a section over a memory and counts them.
func fill(body []byte, size int) (memory []byte, segments uint32) {
	memory = make([]byte, size)
	c := &cursor{data: body}
	segments = c.u32()
	for range segments {
		c.take(2)
		from := uint32(c.i32())
		c.byte()
		copy(memory[from:], c.take(c.u32()))
	}
	return memory, segments
}

// A memory holds the same, whether or not its segments were joined.
func TestJoinData(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var at []uint32
		var data [][]byte
		next := uint32(r.IntN(5000))
		for range 1 + r.IntN(200) {
			text := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, r.IntN(40))
			at, data = append(at, next), append(data, text)
			next += uint32(len(text) + r.IntN(2*joinGap))
		}
		r.Shuffle(len(at), func(i, j int) { at[i], at[j], data[i], data[j] = at[j], at[i], data[j], data[i] })
		body := dataSection(at, data)
		want, before := fill(body, int(next)+100)
		joined := joinData(body)
		got, after := fill(joined, int(next)+100)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: another memory", seed)
		}
		if before > 20 && after > before*4/5 {
			t.Errorf("seed %d: %d segments became %d", seed, before, after)
		}
	}
}

// What joining could change the meaning of is left alone, and nothing grows out of
// proportion.
func TestJoinDataLeavesAlone(t *testing.T) {
	x := [][]byte{{1, 2, 3}, {4, 5, 6}}
	passive := append(binary.AppendUvarint(nil, 2), 1, 1, 7, 1, 1, 8)
	for name, body := range map[string][]byte{
		"one upon the other":  dataSection([]uint32{100, 101}, x),
		"passive":             passive,
		"at a global":         {1, 0, 0x23, 0, 0x0b, 1, 9},
		"far from each other": dataSection([]uint32{100, 10000}, x),
		"at the end":          dataSection([]uint32{100, 1<<32 - 3}, x),
	} {
		if got := joinData(body); !bytes.Equal(got, body) {
			t.Errorf("%s: %x became %x", name, body, got)
		}
	}
	at, data := make([]uint32, 10000), make([][]byte, 10000)
	for i := range at {
		at[i], data[i] = uint32(i*joinGap), []byte{1}
	}
	body := dataSection(at, data)
	if got := joinData(body); len(got) > 4*len(body) {
		t.Errorf("%d bytes became %d", len(body), len(got))
	}
}
