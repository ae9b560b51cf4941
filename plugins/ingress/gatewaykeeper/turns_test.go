package gatewaykeeper

import "testing"

// TestTurns: a namespace with many statuses leaves others theirs in each round (hostile).
func TestTurns(t *testing.T) {
	turn := &turns{count: map[string]int{}}
	for range maxWrites {
		if !turn.take("mallory") {
			t.Fatal("a round writes less than it may")
		}
	}
	if turn.more || turn.take("mallory") || !turn.more {
		t.Error("a round writes more than it may, or does not say that there is more")
	}
	if !turn.take("shop") {
		t.Error("the other namespace has no turn")
	}
}
