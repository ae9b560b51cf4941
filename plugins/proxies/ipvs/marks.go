package ipvs

import (
	"encoding/binary"
	"hash/fnv"
)

// A mark names a second virtual server of a front. It lasts from the packet's arrival to its way
// out, where the tables take it off.
const (
	// markTag tells marks of ours from others.
	markTag uint32 = 0x5a000000
	// markTagBits are where it is.
	markTagBits uint32 = 0xff000000
	// markFree are the bits that tell fronts apart. Bits 14 and 15 are those by which programs of
	// Kubernetes ask for masquerading and for dropping.
	markFree uint32 = 0x00ff3fff
)

// marker draws marks. The bit for masquerading is in none.
type marker struct {
	masquerade uint32
	of         map[front]uint32
	taken      map[uint32]front
}

func newMarker(masquerade uint32) *marker {
	return &marker{masquerade, map[front]uint32{}, map[uint32]front{}}
}

func (m *marker) tag() (value, bits uint32) {
	return markTag &^ m.masquerade, markTagBits &^ m.masquerade
}

// ours reports whether a mark is one that a marker draws.
func (m *marker) ours(mark uint32) bool {
	value, bits := m.tag()
	return mark&bits == value && mark&m.masquerade == 0
}

// mark is that of a front: the same in each run, unless two want the same.
func (m *marker) mark(f front) uint32 {
	if mark, ok := m.of[f]; ok {
		return mark
	}
	value, _ := m.tag()
	for try := uint32(0); ; try++ {
		h := fnv.New32a()
		h.Write(f.address.AsSlice())
		h.Write(binary.BigEndian.AppendUint32([]byte{f.protocol, byte(f.port >> 8), byte(f.port)}, try))
		mark := value | h.Sum32()&markFree&^m.masquerade
		if _, taken := m.taken[mark]; !taken {
			m.of[f], m.taken[mark] = mark, f
			return mark
		}
	}
}

// keep forgets the fronts that a function does not want.
func (m *marker) keep(wanted func(front) bool) {
	for f, mark := range m.of {
		if !wanted(f) {
			delete(m.of, f)
			delete(m.taken, mark)
		}
	}
}
