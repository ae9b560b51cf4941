//go:build wasip1

package sdk

import (
	"runtime/debug"
	"runtime/metrics"
)

// A module's garbage is collected while it is asked, at several times what a
// collection costs elsewhere. Go begins one when as much was allocated as is in use,
// which for a module that holds little is every few hundred questions. So a small
// heap may grow by some MiB first; a large one is as Go has it.

// lookEvery is after how many calls the size of the heap is looked at again. A look
// takes as long as twenty questions.
const lookEvery = 1024

var collection struct {
	calls   int
	percent int
	live    []metrics.Sample
}

// tuneCollection is called with each delta and each question.
func tuneCollection() {
	c := &collection
	if c.calls++; c.calls%lookEvery != 1 {
		return
	}
	if c.live == nil {
		c.live = []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	}
	metrics.Read(c.live)
	percent := 100
	switch live := c.live[0].Value.Uint64(); {
	case live <= 4<<20:
		percent = 300
	case live <= 8<<20:
		percent = 200
	}
	if percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}
