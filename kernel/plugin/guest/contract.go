package guest

import (
	"fmt"

	"pintle.dev/pintle/sdk/contract"
)

// Versions are those of the contract that a host speaks.
type Versions struct{ Oldest, Newest uint32 }

var Contract = Versions{contract.Min, contract.Max}

// Check refuses a bundle that speaks another version, in one line with both.
func (v Versions) Check(bundle string, speaks uint32) error {
	switch {
	case speaks > v.Newest:
		return fmt.Errorf("plugin bundle %s: %w: too new: it speaks contract version %d, this kernel %s; upgrade the kernel, or build the plugin with an older sdk", bundle, ErrPermanent, speaks, v)
	case speaks < v.Oldest:
		return fmt.Errorf("plugin bundle %s: %w: too old: it speaks contract version %d, this kernel %s; build the plugin with a newer sdk", bundle, ErrPermanent, speaks, v)
	}
	return nil
}

func (v Versions) String() string {
	if v.Oldest == v.Newest {
		return fmt.Sprint(v.Newest)
	}
	return fmt.Sprintf("%d to %d", v.Oldest, v.Newest)
}
