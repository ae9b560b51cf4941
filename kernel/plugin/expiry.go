package plugin

import (
	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Expirer = (*Policy)(nil)

// VerdictsUntil implements contractv1.Expirer.
func (p *Policy) VerdictsUntil(i int) int64 { return p.filters[i].until }

// ScoresUntil implements contractv1.Expirer.
func (p *Policy) ScoresUntil(i int) int64 { return p.scorers[i].until }

// ends notes when the answers to the question end that was just asked, of a plugin
// that expires.
func (at *place) ends(g guest.Guest, k int, expires bool) (err error) {
	if at.until = 0; expires {
		if e, ok := g.(guest.Expirer); ok {
			at.until, err = e.Until(k)
		}
	}
	return err
}
