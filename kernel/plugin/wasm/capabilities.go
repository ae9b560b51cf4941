package wasm

import (
	"pintle.dev/pintle/kernel/plugin/guest"
)

func (g *Guest) Until(i int) (int64, error) {
	if g.untilFn == nil {
		return 0, g.outOfRange("%s is described with expires, and its module exports no pintle_until", g.plugins[i].GetName())
	}
	g.stack[0] = uint64(i)
	if err := g.invoke(g.untilFn, g.Timeout); err != nil {
		return 0, err
	}
	until := int64(g.stack[0])
	if until < 0 {
		return 0, g.answered()
	}
	return until, nil
}

func (g *Guest) Idle(i int, class uint32) (bool, error) {
	return g.yes(g.idleFn, i, class)
}

// Asserts is what a module answers to a call about a class that is yes or no.
func (g *Guest) Asserts(call string, i int, class uint32) (bool, error) {
	switch call {
	case guest.CallAloof:
		return g.yes(g.aloofFn, i, class)
	case guest.CallIndifferent:
		return g.yes(g.indifferentFn, i, class)
	}
	return false, nil
}

// yes asks a question about a class; a module that does not export it answers no.
func (g *Guest) yes(question *export, i int, class uint32) (bool, error) {
	if question == nil {
		return false, nil
	}
	g.stack[0], g.stack[1] = uint64(i), uint64(class)
	if err := g.invoke(question, g.Timeout); err != nil {
		return false, err
	}
	switch int32(g.stack[0]) {
	case 0:
		return false, nil
	case 1:
		return true, nil
	}
	return false, g.answered()
}

func (g *caller) HeldBy(l guest.Lender) { g.lender = l }
