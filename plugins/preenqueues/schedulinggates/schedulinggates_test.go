package schedulinggates

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestAdmit(t *testing.T) {
	admit := New().Admit
	if s := admit(nil, &sdk.QueuedPod{Pod: &sdk.Pod{}}); s.Code != sdk.Success {
		t.Errorf("pod does not carry scheduling gates: %+v", s)
	}
	s := admit(nil, &sdk.QueuedPod{Pod: &sdk.Pod{SchedulingGates: []string{"foo", "bar"}}})
	if s.Code != sdk.UnschedulableAndUnresolvable || s.Reasons[0] != "waiting for scheduling gates: [foo bar]" {
		t.Errorf("pod carries scheduling gates: %+v", s)
	}
}
