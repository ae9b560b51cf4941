package maxebsvolumecount

import (
	"testing"

	"pintle.dev/pintle/plugins/predicates/volumecount/volumecounttest"
)

// PRD-34, PRD-36, T-3, FIL-4.
func TestFilter(t *testing.T) { volumecounttest.Run(t, New, "awsElasticBlockStore", 39, "PRD-34") }
