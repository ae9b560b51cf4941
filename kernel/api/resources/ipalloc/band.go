package ipalloc

import (
	"errors"
	"math/bits"
	"math/rand/v2"
)

// ErrFull means that a range has nothing left to give.
var ErrFull = errors.New("range is full")

// band is a range of numbers from 0 to size, of which some are taken. Numbers
// below offset are given out last.
type band struct {
	size, offset int
	taken        []uint64
	used         int
}

func newBand(size, offset int) *band {
	return &band{size: size, offset: offset, taken: make([]uint64, (size+63)/64)}
}

func (b *band) has(i int) bool { return b.taken[i/64]&(1<<(i%64)) != 0 }

// take marks i as taken; false means that it was already.
func (b *band) take(i int) bool {
	if b.has(i) {
		return false
	}
	b.taken[i/64] |= 1 << (i % 64)
	b.used++
	return true
}

func (b *band) free(i int) {
	if b.has(i) {
		b.taken[i/64] &^= 1 << (i % 64)
		b.used--
	}
}

// next finds a free number, from a random place in the upper part on.
func (b *band) next(skip func(int) bool) (int, error) {
	for _, part := range [][2]int{{b.offset, b.size}, {0, b.offset}} {
		lo, hi := part[0], part[1]
		if hi <= lo {
			continue
		}
		start := lo + rand.IntN(hi-lo)
		if i, ok := b.scan(start, hi, skip); ok {
			return i, nil
		}
		if i, ok := b.scan(lo, start, skip); ok {
			return i, nil
		}
	}
	return 0, ErrFull
}

func (b *band) scan(lo, hi int, skip func(int) bool) (int, bool) {
	for i := lo; i < hi; {
		word := b.taken[i/64] >> (i % 64)
		run := bits.TrailingZeros64(^word)
		if run > 0 {
			// A shift fills with zeros, so a run never passes the word's end.
			i += run
			continue
		}
		if skip == nil || !skip(i) {
			return i, true
		}
		i++
	}
	return 0, false
}

// lowerBand is the size of the part left to users' own choice: size/step, at
// least 16 and at most limit, nothing in ranges of 16 or fewer.
func lowerBand(size, step, limit int) int {
	if size <= 16 {
		return 0
	}
	return min(max(size/step, 16), limit)
}
