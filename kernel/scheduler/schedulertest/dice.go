package schedulertest

import "math/rand/v2"

// dice is a source of chance that a fuzzer can steer: each draw takes a byte of the
// script, so that a changed byte changes one choice and leaves those before it;
// where the script ends, the seed goes on.
type dice struct {
	script []byte
	after  rand.Source
}

func NewDice(seed uint64, script []byte) *rand.Rand {
	return rand.New(&dice{script, rand.NewPCG(seed, 1)})
}

// Uint64 puts the byte on top, where rand takes small numbers from.
func (d *dice) Uint64() uint64 {
	if len(d.script) == 0 {
		return d.after.Uint64()
	}
	b := d.script[0]
	d.script = d.script[1:]
	return uint64(b)<<56 | 0x0055555555555555
}
