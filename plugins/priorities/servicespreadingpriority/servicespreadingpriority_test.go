package servicespreadingpriority

import (
	"slices"
	"testing"

	"pintle.dev/pintle/sdk"
)

// PRI-20, PRI-22: services only. That the function spreads is proved where it
// lives, in selectorspreadpriority.
func TestReadsServicesOnly(t *testing.T) {
	p := New()
	if p.Name != "ServiceSpreadingPriority" || !slices.Equal(p.Reads, []string{"Service"}) || p.Normalize != sdk.NormalizePlugin {
		t.Errorf("%+v", p)
	}
}
