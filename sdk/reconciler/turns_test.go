//go:build !wasip1

package reconciler

import (
	"context"
	"testing"
)

// A configuration comes between two reconciliations, and ends what the one under
// way waits for.
func TestTurns(t *testing.T) {
	var turns turns
	inside, over := make(chan struct{}), make(chan struct{})
	reconciling := false
	go func() {
		defer close(over)
		turns.reconcile(t.Context(), func(ctx context.Context) {
			reconciling = true
			close(inside)
			<-ctx.Done()
			reconciling = false
		})
	}()
	<-inside
	if err := turns.configure(func() error {
		if reconciling {
			t.Error("configured within a reconciliation")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	<-over
	turns.reconcile(t.Context(), func(ctx context.Context) {
		if ctx.Err() != nil {
			t.Errorf("the next one: %v", ctx.Err())
		}
	})
}
