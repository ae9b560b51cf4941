package prioritysort

import (
	"math"
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestKey(t *testing.T) {
	key := func(priority int32) int64 { return New().Key(&sdk.QueuedPod{Pod: &sdk.Pod{Priority: priority}}).Number }
	if key(2) >= key(1) || key(0) >= key(-1) || key(math.MaxInt32) >= key(math.MinInt32) {
		t.Error("a higher priority does not go first")
	}
}
