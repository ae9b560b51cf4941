package engine

import (
	"context"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// LinearMemory is the memory of one instance, outside of Go's heap: to grow it
// copies nothing and leaves nothing behind, only pages that were written to are
// resident, and all of them go with the instance instead of with a collection.
type LinearMemory struct {
	mapped []byte // as much as there may ever be
	used   uint64 // of mapped: the module's
	heap   []byte // in its place where the system does not map as much
	shared bool   // mapped is another process's too, and was there before
	taken  bool
}

var (
	_ experimental.MemoryAllocator = (*LinearMemory)(nil)
	_ experimental.LinearMemory    = (*LinearMemory)(nil)
)

// Share is a memory that another process has mapped too.
func Share(mapped []byte) *LinearMemory { return &LinearMemory{mapped: mapped, shared: true} }

// within makes the instance that is made with the context use the memory.
func (m *LinearMemory) within(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, m)
}

// Allocate implements experimental.MemoryAllocator. A module has one memory.
func (m *LinearMemory) Allocate(_, most uint64) experimental.LinearMemory {
	if m.taken {
		return &LinearMemory{}
	}
	m.taken = true
	if m.shared {
		return m
	}
	mapped, err := unix.Mmap(-1, 0, int(most), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		m.mapped = mapped
	}
	return m
}

// Reallocate implements experimental.LinearMemory; size only grows.
func (m *LinearMemory) Reallocate(size uint64) []byte {
	if m.mapped != nil {
		if size > uint64(len(m.mapped)) {
			return nil
		}
		m.used = size
		return m.mapped[:size:size]
	}
	if size > uint64(cap(m.heap)) {
		m.heap = append(make([]byte, 0, size+size/4), m.heap...)
	}
	m.heap = m.heap[:size]
	return m.heap
}

// Mapped is all that there may ever be of a memory that stays where it is; nil of
// another.
func (m *LinearMemory) Mapped() []byte { return m.mapped }

// Used is how much of Mapped the module has.
func (m *LinearMemory) Used() uint64 {
	if m.mapped == nil {
		return 0
	}
	return m.used
}

// Free implements experimental.LinearMemory. A module that exits in the midst of a
// call is closed under the hands of its caller, who may still look: the pages go,
// their addresses stay until Unmap.
func (m *LinearMemory) Free() {
	if m.mapped != nil && !m.shared {
		_ = unix.Madvise(m.mapped, unix.MADV_DONTNEED)
	}
}

// Unmap gives the addresses back; nobody looks any more.
func (m *LinearMemory) Unmap() {
	if m.mapped != nil {
		_ = unix.Munmap(m.mapped)
		m.mapped = nil
	}
}
