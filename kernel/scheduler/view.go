package scheduler

import (
	"context"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// view is a snapshot as classes look at it. One class is brought up to date at a time.
type view struct {
	*snapshot.Snapshot

	// suppose hands plugins what is not so; nil: nobody does.
	suppose func(ctx context.Context, operations []*contractv1.Operation) error
	now     func() time.Time

	scratch *scratch
}

func newView(s *snapshot.Snapshot) *view {
	return &view{Snapshot: s, now: time.Now, scratch: &scratch{}}
}

// renew leaves what belongs to the update under way to whoever is in it, who goes on
// with it for nothing.
func (v *view) renew() { v.scratch = &scratch{} }
