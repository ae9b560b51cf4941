//go:build !wasip1

package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// frameHeader is the size of what stands before the body of a frame: three u32,
// little endian, of the body's size, the question's number, and what it is.
const frameHeader = 12

// keptFrame is how large a buffer may be that is kept between frames.
const keptFrame = 1 << 20

// errTooLarge is the error of a frame that passes its bound.
var errTooLarge = errors.New("frame is too large")

// frame is a question or its answer.
type frame struct {
	number uint32 // of the question; the answer has the same
	what   uint32 // which Question; of an answer a code of gRPC, 0 where it went well
	body   []byte
}

// beginFrame begins a frame in a buffer; its body is appended to what it returns.
func beginFrame(buffer []byte) []byte {
	return append(buffer[:0], make([]byte, frameHeader)...)
}

// endFrame fills in the header of a frame whose body is complete.
func endFrame(out []byte, number, what uint32) {
	binary.LittleEndian.PutUint32(out, uint32(len(out)-frameHeader))
	binary.LittleEndian.PutUint32(out[4:], number)
	binary.LittleEndian.PutUint32(out[8:], what)
}

// frameReader reads frames. What a read brought before it failed is kept, so that
// one that ran into a deadline can go on later.
type frameReader struct {
	from   io.Reader
	buffer []byte
	taken  int // bytes of the buffer that next has handed out
}

// next returns the next frame, of at most limit bytes; its body is good until the
// next call. The buffer grows with what arrives, not by what a header promises.
func (r *frameReader) next(limit int) (frame, error) {
	left := copy(r.buffer, r.buffer[r.taken:])
	r.buffer, r.taken = r.buffer[:left], 0
	if cap(r.buffer) > keptFrame {
		r.buffer = slices.Clip(slices.Clone(r.buffer))
	}
	for {
		if len(r.buffer) >= frameHeader {
			size := binary.LittleEndian.Uint32(r.buffer)
			if int64(size) > int64(limit) {
				return frame{}, fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, size, limit)
			}
			if end := frameHeader + int(size); len(r.buffer) >= end {
				r.taken = end
				return frame{binary.LittleEndian.Uint32(r.buffer[4:]), binary.LittleEndian.Uint32(r.buffer[8:]), r.buffer[frameHeader:end]}, nil
			}
		}
		if len(r.buffer) == cap(r.buffer) {
			r.buffer = slices.Grow(r.buffer, max(4096, len(r.buffer)))
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
			return frame{}, err
		}
	}
}
