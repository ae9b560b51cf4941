//go:build wasip1

package sdk

import (
	"context"
	"errors"
	"unsafe"
)

// Serve does nothing in a WASM module: the host calls the exports below.
func Serve() {}

// instance is the module's only guest; the host calls from one goroutine.
var instance struct {
	guest    *Guest
	buffers  map[uint32][]byte
	describe []byte
	text     []byte
	answer   []byte
	failure  []byte
	contract uint32
}

// Status codes of ABI.md.
const (
	statusOK        = 0
	statusPlugin    = -1
	statusClass     = -2
	statusNode      = -3
	statusMalformed = -4
	statusPanic     = -5
	statusFailed    = -6
)

func theGuest() *Guest {
	if instance.guest == nil {
		instance.guest = NewGuest()
		instance.buffers = map[uint32][]byte{}
	}
	return instance.guest
}

func status(err error) int32 {
	if err == nil {
		return statusOK
	}
	instance.failure = []byte(err.Error())
	switch {
	case errors.Is(err, ErrPlugin):
		return statusPlugin
	case errors.Is(err, ErrClass):
		return statusClass
	case errors.Is(err, ErrNode):
		return statusNode
	case errors.Is(err, ErrDelta):
		return statusMalformed
	case errors.Is(err, ErrPanic):
		return statusPanic
	}
	return statusFailed
}

// memoryAt views linear memory that the host wrote or reads.
func memoryAt[T byte | uint32 | uint64 | int64](pointer uint32, n uint32) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(nil), pointer)), n)
}

// at is memoryAt of one.
func at[T uint32 | int64](pointer uint32) *T { return (*T)(unsafe.Add(unsafe.Pointer(nil), pointer)) }

// span packs a pointer and a length as the ABI returns them.
func span(data []byte) int64 {
	if len(data) == 0 {
		return 0
	}
	return int64(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))<<32 | uint64(len(data)))
}

//go:wasmexport pintle_abi_version
func exportVersion() int32 { return ABIVersion }

//go:wasmexport pintle_alloc
func exportAlloc(size uint32) uint32 {
	theGuest()
	// Eight-byte elements align the buffer for scores.
	words := make([]uint64, size/8+1)
	pointer := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(words))))
	instance.buffers[pointer] = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
	return pointer
}

//go:wasmexport pintle_free
func exportFree(pointer uint32) { delete(instance.buffers, pointer) }

//go:wasmexport pintle_describe
func exportDescribe() int64 {
	if instance.describe == nil {
		if instance.contract == 0 {
			instance.contract = theGuest().Contract(0, 0) // nobody asked
		}
		instance.describe = describeJSON(instance.contract, theGuest().Plugins())
	}
	return span(instance.describe)
}

//go:wasmexport pintle_configure
func exportConfigure(plugin int32, pointer, size uint32) int32 {
	// The plugin may keep its configuration; the buffer is the host's.
	config := append([]byte(nil), memoryAt[byte](pointer, size)...)
	return status(theGuest().Configure(int(plugin), config))
}

//go:wasmexport pintle_instance
func exportInstance(plugin int32, pointer, size uint32) int32 {
	index, err := theGuest().Instance(int(plugin), string(memoryAt[byte](pointer, size)))
	if err != nil {
		return status(err)
	}
	return int32(index)
}

//go:wasmexport pintle_apply
func exportApply(pointer, size uint32) int32 {
	tuneCollection()
	result := status(theGuest().Apply(memoryAt[byte](pointer, size)))
	collectFed(size)
	return result
}

//go:wasmexport pintle_filter
func exportFilter(plugin int32, class, nodes, n, out uint32) int32 {
	if g := instance.guest; n == 1 && g != nil && g.again(int(plugin), class) && g.plugins[plugin].filter != nil {
		if err := g.filterAgain(*at[uint32](nodes), at[uint32](out)); err != nil {
			return status(err)
		}
		return statusOK
	}
	return status(theGuest().Filter(int(plugin), class, memoryAt[uint32](nodes, n), memoryAt[uint32](out, n)))
}

//go:wasmexport pintle_score
func exportScore(plugin int32, class, nodes, n, out uint32) int32 {
	if g := instance.guest; n == 1 && g != nil && g.again(int(plugin), class) && g.plugins[plugin].score != nil {
		if err := g.scoreAgain(*at[uint32](nodes), at[int64](out)); err != nil {
			return status(err)
		}
		return statusOK
	}
	return status(theGuest().Score(int(plugin), class, memoryAt[uint32](nodes, n), memoryAt[int64](out, n)))
}

//go:wasmexport pintle_evaluate
func exportEvaluate(delta, size, request, words, out, room uint32) int32 {
	tuneCollection()
	return status(theGuest().Evaluate(memoryAt[byte](delta, size), memoryAt[uint32](request, words), memoryAt[uint64](out, room)))
}

// exportMoved is part of the contract since version 3.
//
//go:wasmexport pintle_moved
func exportMoved(plugin int32, class uint32, since uint64, out, room uint32) int32 {
	now, nodes, all, err := theGuest().Moved(int(plugin), class, since)
	if err != nil {
		return status(err)
	}
	to := memoryAt[uint32](out, room)
	to[0], to[1], to[2] = uint32(now), uint32(now>>32), uint32(len(nodes))
	if all || len(nodes) > len(to)-3 {
		to[2] = ^uint32(0)
		return 0
	}
	copy(to[3:], nodes)
	return 0
}

// assertion is the answer to a question that is yes or no.
func assertion(yes bool, err error) int32 {
	switch {
	case err != nil:
		return status(err)
	case yes:
		return 1
	}
	return 0
}

// exportIdle is part of the contract since version 3.
//
//go:wasmexport pintle_idle
func exportIdle(plugin int32, class uint32) int32 {
	return assertion(theGuest().Idle(int(plugin), class))
}

// exportIndifferent is part of the contract since version 3.
//
//go:wasmexport pintle_indifferent
func exportIndifferent(plugin int32, class uint32) int32 {
	return assertion(theGuest().Indifferent(int(plugin), class))
}

// exportAloof is part of the contract since version 3.
//
//go:wasmexport pintle_aloof
func exportAloof(plugin int32, class uint32) int32 {
	return assertion(theGuest().Aloof(int(plugin), class))
}

// exportUntil is part of the contract since version 4.
//
//go:wasmexport pintle_until
func exportUntil(plugin int32) int64 {
	until, err := theGuest().Until(int(plugin))
	if err != nil {
		return int64(status(err))
	}
	return until
}

//go:wasmexport pintle_normalize
func exportNormalize(plugin int32, class, nodes, n, scores uint32) int32 {
	return status(theGuest().Normalize(int(plugin), class, memoryAt[uint32](nodes, n), memoryAt[int64](scores, n)))
}

//go:wasmexport pintle_admit
func exportAdmit(plugin int32, pointer, size uint32) int64 {
	response, err := theGuest().Admit(int(plugin), memoryAt[byte](pointer, size))
	if err != nil {
		status(err)
		return 0
	}
	instance.text = append(instance.text[:0], response...)
	return span(instance.text)
}

//go:wasmexport pintle_reconcile
func exportReconcile(plugin int32, pointer, size uint32) int64 {
	after, err := theGuest().Reconcile(int(plugin), append([]byte(nil), memoryAt[byte](pointer, size)...))
	if err != nil {
		return int64(status(err))
	}
	return max(after, 0)
}

//go:wasmexport pintle_reason
func exportReason(plugin int32, verdict uint32) int64 {
	instance.text = instance.text[:0]
	for i, reason := range theGuest().Reasons(int(plugin), verdict) {
		if i > 0 {
			instance.text = append(instance.text, '\n')
		}
		instance.text = append(instance.text, reason...)
	}
	return span(instance.text)
}

// exportUnresolvable is part of the contract since version 3.
//
//go:wasmexport pintle_unresolvable
func exportUnresolvable(plugin int32, verdict uint32) int32 {
	if theGuest().Unresolvable(int(plugin), verdict) {
		return 1
	}
	return 0
}

//go:wasmexport pintle_contract
func exportContract(oldest, newest uint32) uint32 {
	instance.contract = theGuest().Contract(oldest, newest)
	return instance.contract
}

//go:wasmexport pintle_cycle
func exportCycle(pointer, size uint32) int32 {
	tuneCollection()
	answer, err := theGuest().Cycle(context.Background(), memoryAt[byte](pointer, size))
	instance.answer = answer
	return status(err)
}

//go:wasmexport pintle_answer
func exportAnswer() int64 { return span(instance.answer) }

//go:wasmexport pintle_error
func exportError() int64 { return span(instance.failure) }
