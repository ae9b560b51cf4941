package wasmworker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A frame is a u32 with the size of its body, a byte that says what it is, and the
// body; numbers are little endian.
const frameHeader = 5

// What frames are. From the kernel:
const (
	frameStart    = 1 + iota // u64 patience
	frameCall                // u16 function, u64 patience, the stack
	frameAnswered            // u8 outcome, u32 size, words
)

// From the worker:
const (
	frameStarted  = 16 + iota // started, in JSON
	frameDone                 // u8 outcome, i64 sliced, u64 used, the stack, words
	frameOperated             // u8 function, u32 pointer, u32 size, u64 used
	frameHandOver             // u32 pointer, u32 size, u64 used
	frameOutput               // what the module printed
)

// How a call or a host function ended.
const (
	outcomeGood = iota
	outcomeDeadline
	outcomeTrap
)

const (
	// stackWords is how many numbers a call takes and returns.
	stackWords = 6
	maxFrame   = 256 << 10
	maxWords   = 4 << 10  // of an error
	maxOutput  = 64 << 10 // of a frame
	// notSliced is in the place of a time: the call ended before it looked at the clock.
	notSliced = -1
)

var errFrame = errors.New("a frame that is none")

func beginFrame(buffer []byte, kind byte) []byte {
	return append(buffer[:0], 0, 0, 0, 0, kind)
}

func endFrame(out []byte) []byte {
	binary.LittleEndian.PutUint32(out, uint32(len(out)-frameHeader))
	return out
}

func appendStack(out []byte, stack []uint64) []byte {
	for k := range stackWords {
		v := uint64(0)
		if k < len(stack) {
			v = stack[k]
		}
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return out
}

func takeStack(in []byte, stack []uint64) {
	for k := range min(stackWords, len(stack)) {
		stack[k] = binary.LittleEndian.Uint64(in[8*k:])
	}
}

// reader reads frames; a body is good until the next one.
type reader struct {
	from   io.Reader
	buffer []byte
	taken  int
}

func (r *reader) next() (kind byte, body []byte, err error) {
	left := copy(r.buffer, r.buffer[r.taken:])
	r.buffer, r.taken = r.buffer[:left], 0
	for {
		if len(r.buffer) >= frameHeader {
			size := binary.LittleEndian.Uint32(r.buffer)
			if size > maxFrame {
				return 0, nil, fmt.Errorf("%w: %d bytes", errFrame, size)
			}
			if end := frameHeader + int(size); len(r.buffer) >= end {
				r.taken = end
				return r.buffer[4], r.buffer[frameHeader:end], nil
			}
		}
		if len(r.buffer) == cap(r.buffer) {
			r.buffer = slices.Grow(r.buffer, max(1024, len(r.buffer)))
		}
		n, err := r.from.Read(r.buffer[len(r.buffer):cap(r.buffer)])
		r.buffer = r.buffer[:len(r.buffer)+n]
		if n > 0 {
			continue // an error comes again
		}
		if errors.Is(err, io.EOF) && len(r.buffer) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, nil, err
		}
	}
}
