package kernel

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
)

// What is done at rest does not wait for the disk: machine code goes there by a part of its own, which ends with the kernel.
func TestRestWaitsForNoDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Kernel{log: slog.New(slog.DiscardHandler), atRest: make(chan struct{}, 1)}
		k.dirs.plugins = t.TempDir()
		for range 3 {
			k.rest() // nobody takes it yet
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() {
			if err := k.letGoOfCode(ctx); err != nil {
				t.Error(err)
			}
			ended = true
		}()
		synctest.Wait()
		if len(k.atRest) > 0 || ended {
			t.Errorf("%d rests are left, ended: %v", len(k.atRest), ended)
		}
		cancel()
		synctest.Wait()
		if !ended {
			t.Error("it did not end")
		}
	})
}
