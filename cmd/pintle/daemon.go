package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"pintle.dev/pintle/kernel/config"
)

// daemon is what a command runs in the foreground: a kernel, or a machine's node.
type daemon interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	Reconfigure(ctx context.Context, next *config.Config, changes []config.Change)
}

// runDaemon runs a daemon until it ends or ctx does, and has it apply what changes in its
// configuration. ready is called once the daemon is; stop has a second Ctrl-C end the
// process at once. Everything that it starts has ended when it returns.
func runDaemon(ctx context.Context, stop func(), d daemon, src config.Source, running *config.Config, log *slog.Logger, screen *screen, ready func()) error {
	watching, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := config.Watch(watching, src, running, log, d.Reconfigure); err != nil {
			log.Warn("changes of the configuration are not noticed", "error", err)
		}
	})
	wg.Go(func() {
		select {
		case <-d.Ready():
			ready()
		case <-watching.Done():
		}
	})
	wg.Go(func() { // ended before "stopped" is said, which is the last line
		<-watching.Done()
		if ctx.Err() != nil {
			stop()
			screen.line("stopping")
		}
	})
	err := d.Run(ctx)
	cancel()
	wg.Wait()
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		screen.line("stopped")
		return nil
	}
	return err
}
