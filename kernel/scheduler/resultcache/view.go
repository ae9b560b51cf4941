package resultcache

import (
	"context"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// View is a snapshot as classes look at it. One class is brought up to date at a time.
type View struct {
	*snapshot.Snapshot

	// ApplyHypothetical hands plugins what is not so; nil: nobody does.
	ApplyHypothetical func(ctx context.Context, operations []*contractv1.Operation) error
	Now               func() time.Time

	update *update // of one class after the other
}

func NewView(s *snapshot.Snapshot) *View {
	return &View{Snapshot: s, Now: time.Now, update: &update{}}
}

// Renew leaves what belongs to the update under way to whoever is in it, who goes on
// with it for nothing.
func (v *View) Renew() { v.update = &update{} }
