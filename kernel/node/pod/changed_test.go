package pod

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/worker"
)

// TestChanged: what the runtime tells of begins a round where the work does not know it, and none where it does.
func TestChanged(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		looked  time.Time
		changes []time.Time
		round   bool
	}{
		"never looked":       {time.Time{}, []time.Time{now}, true},
		"looked later":       {now, []time.Time{now.Add(-time.Second), now.Add(-time.Millisecond)}, false},
		"at the same moment": {now, []time.Time{now}, true},
		"changed later":      {now, []time.Time{now.Add(time.Second)}, true},
		"the order of words": {now, []time.Time{now.Add(time.Second), now.Add(-time.Second)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			rounds := make(chan types.UID, 10)
			m := &Manager{entries: map[types.UID]*entry{"u": {}}, pool: worker.New(func(_ context.Context, uid types.UID) time.Duration {
				rounds <- uid
				return 0
			})}
			m.entries["u"].acted(tc.looked)
			m.Changed("unknown", now)
			for _, at := range tc.changes {
				m.Changed("u", at)
			}
			if tc.round {
				<-rounds
			}
			m.Close()
			if n := len(rounds); !tc.round && n > 0 {
				t.Errorf("%d rounds, want none", n)
			}
		})
	}
}
