package plugin

import (
	"fmt"

	"pintle.dev/pintle/sdk/contract"
)

// versions are those of the contract that a host speaks.
type versions struct{ oldest, newest uint32 }

var spoken = versions{contract.Min, contract.Max}

// check refuses a bundle that speaks another version, in one line with both.
func (v versions) check(bundle string, speaks uint32) error {
	switch {
	case speaks > v.newest:
		return fmt.Errorf("plugin bundle %s: %w: too new: it speaks contract version %d, this kernel %s; upgrade the kernel, or build the plugin with an older sdk", bundle, errPermanent, speaks, v)
	case speaks < v.oldest:
		return fmt.Errorf("plugin bundle %s: %w: too old: it speaks contract version %d, this kernel %s; build the plugin with a newer sdk", bundle, errPermanent, speaks, v)
	}
	return nil
}

func (v versions) String() string {
	if v.oldest == v.newest {
		return fmt.Sprint(v.newest)
	}
	return fmt.Sprintf("%d to %d", v.oldest, v.newest)
}
