package engine

import "testing"

// What was written stays while the memory grows, what is new is zero, and neither
// more than the ceiling nor more than was written to is held.
func TestLinearMemoryGrows(t *testing.T) {
	const most = 64 << 20
	for _, mapped := range []bool{true, false} {
		m := &LinearMemory{}
		l := m.Allocate(0, most)
		if !mapped {
			m.Unmap() // as if the system had refused
		}
		for size := uint64(Page); size <= 1<<20; size *= 2 {
			b := l.Reallocate(size)
			if uint64(len(b)) != size || b[size-1] != 0 || size > Page && b[size/2-1] != byte(size/2/Page) {
				t.Fatalf("mapped %v: %d bytes, the last of the former half is %d", mapped, len(b), b[size/2-1])
			}
			b[size-1] = byte(size / Page)
		}
		if mapped && l.Reallocate(most+1) != nil {
			t.Error("it grew above its ceiling")
		}
		view := l.Reallocate(1 << 20)
		if l.Free(); mapped && view[0] != 0 {
			t.Errorf("freed memory holds %d", view[0])
		}
		m.Unmap()
		m.Unmap()
	}
}
