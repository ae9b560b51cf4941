package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible ends work in order at Ctrl-C, so that nothing half done is left.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
