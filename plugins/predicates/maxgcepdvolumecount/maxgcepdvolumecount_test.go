package maxgcepdvolumecount

import (
	"testing"

	"pintle.dev/pintle/plugins/predicates/volumecount/volumecounttest"
)

// PRD-35, PRD-36, T-3, FIL-4.
func TestFilter(t *testing.T) { volumecounttest.Run(t, New, "gcePersistentDisk", 16, "PRD-35") }
