package config

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must rest before it is read again: editors write
// in several steps.
const settle = 100 * time.Millisecond

// Watch reads the file again whenever it changes and calls apply with the new
// configuration and what differs from the one last applied. A faulty file is
// logged, one line a fault, and changes nothing. Watch blocks until ctx ends;
// apply runs on its goroutine. Keys that need a restart are logged each time
// they change and keep their running value. running is resolved.
func Watch(ctx context.Context, src Source, running *Config, log *slog.Logger, apply func(context.Context, *Config, []Change)) error {
	if src.File == "" {
		<-ctx.Done()
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch configuration %s: %w", src.File, err)
	}
	defer w.Close()
	// The folder is watched, not the file: an editor or a ConfigMap mount
	// replaces the file, and a watch on the old one would see nothing more.
	if err := w.Add(filepath.Dir(src.File)); err != nil {
		return fmt.Errorf("watch configuration %s: %w", src.File, err)
	}
	// What was written since it was first read is noticed at once.
	timer := time.NewTimer(settle)
	defer timer.Stop()
	var seen []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			log.Warn("watching the configuration failed", "file", src.File, "error", err)
		case <-w.Events:
			timer.Reset(settle)
		case <-timer.C:
			// Other files of the folder change too, the log perhaps, which
			// would be told of its own writing for ever.
			text, err := os.ReadFile(src.File)
			if err == nil && bytes.Equal(text, seen) {
				continue
			}
			seen = text
			next, err := Load(src)
			if err != nil {
				for line := range strings.SplitSeq(err.Error(), "\n") {
					log.Error("configuration not applied", "fault", line)
				}
				continue
			}
			if err := next.Resolve(); err != nil {
				log.Error("configuration not applied", "fault", err)
				continue
			}
			changes := Diff(running, next)
			if len(changes) == 0 {
				continue
			}
			if keys := Restart(changes); len(keys) > 0 {
				log.Warn("configuration changed in keys that need a restart", "keys", strings.Join(keys, ", "))
			}
			apply(ctx, next, changes)
			running = next
		}
	}
}
