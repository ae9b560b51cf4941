package kernel

import (
	"maps"
	"slices"
	"testing"

	"pintle.dev/pintle/kernel/plugin/description"
)

// TestEveryReadableKindHasASource: what a plugin may ask to read, the scheduler
// feeds it from the API.
func TestEveryReadableKindHasASource(t *testing.T) {
	if have := slices.Sorted(maps.Keys(objectSources)); !slices.Equal(have, slices.Sorted(slices.Values(description.Objects))) {
		t.Errorf("plugins may read %v, and these have a source: %v", description.Objects, have)
	}
}
