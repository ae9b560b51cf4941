package plugin

import (
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Expirer = (*Policy)(nil)

// expirer is a guest whose plugins say when their answers end.
type expirer interface {
	// until is when the answers end that plugin i gave to the last question, in Unix
	// milliseconds; 0: time does not end them. Only of plugins that said that they do.
	until(i int) (int64, error)
}

// VerdictsUntil implements contractv1.Expirer.
func (p *Policy) VerdictsUntil(i int) int64 { return p.filters[i].until }

// ScoresUntil implements contractv1.Expirer.
func (p *Policy) ScoresUntil(i int) int64 { return p.scorers[i].until }

// ends notes when the answers to the question end that was just asked, of a plugin
// that expires.
func (at *place) ends(g guest, k int, expires bool) (err error) {
	if at.until = 0; expires {
		if e, ok := g.(expirer); ok {
			at.until, err = e.until(k)
		}
	}
	return err
}

func (g *wasmGuest) until(i int) (int64, error) {
	if g.untilFn == nil {
		return 0, g.outOfRange("%s is described with expires, and its module exports no pintle_until", g.plugins[i].GetName())
	}
	g.stack[0] = uint64(i)
	if err := g.invoke(g.untilFn, g.timeout); err != nil {
		return 0, err
	}
	until := int64(g.stack[0])
	if until < 0 {
		return 0, g.answered()
	}
	return until, nil
}

func (g *processGuest) until(int) (int64, error) { return g.answeredUntil, nil }

// untilOf takes in what a process said.
func (g *processGuest) untilOf(until int64) error {
	if until < 0 {
		return g.outOfRange("answers until %d", until)
	}
	g.answeredUntil = until
	return nil
}
