package kernel

import (
	"testing"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/node/hollow"
)

// TestHollowLabel: the API refuses streams of the nodes that the agents mark. Neither
// package may import the other.
func TestHollowLabel(t *testing.T) {
	if api.HollowLabel != hollow.Label {
		t.Errorf("the API looks for label %s, hollow nodes have %s", api.HollowLabel, hollow.Label)
	}
}
