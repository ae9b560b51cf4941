package scheduler

import (
	"maps"
	"slices"
	"testing"

	"pintle.dev/pintle/kernel/plugin/description"
)

// What descriptions of plugins may read is what the scheduler can hand out.
func TestReadableObjects(t *testing.T) {
	if have := slices.Sorted(maps.Keys(objectTypes)); !slices.Equal(have, description.Objects) {
		t.Errorf("the scheduler converts %q, and plugins may read %q", have, description.Objects)
	}
}
