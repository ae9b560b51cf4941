package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	return WatchFile(ctx, src.File, settle, log, func([]byte) {
		next, err := Load(src)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				log.Error("configuration not applied", "fault", line)
			}
			return
		}
		if err := next.Resolve(); err != nil {
			log.Error("configuration not applied", "fault", err)
			return
		}
		changes := Diff(running, next)
		if len(changes) == 0 {
			return
		}
		if keys := Restart(changes); len(keys) > 0 {
			log.Warn("configuration changed in keys that need a restart", "keys", strings.Join(keys, ", "))
		}
		apply(ctx, next, changes)
		running = next
	})
}

// WatchFile calls changed with the content of a file whenever it is another,
// at first once at the start, when the file has rested for a while. A file that is
// not there is empty. It blocks until ctx ends; changed runs on its goroutine.
func WatchFile(ctx context.Context, file string, rest time.Duration, log *slog.Logger, changed func(text []byte)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", file, err)
	}
	defer w.Close()
	// The folder is watched, not the file: an editor or a ConfigMap mount
	// replaces the file, and a watch on the old one would see nothing more.
	if err := w.Add(filepath.Dir(file)); err != nil {
		return fmt.Errorf("watch %s: %w", file, err)
	}
	// What was written since it was first read is noticed at once.
	timer := time.NewTimer(rest)
	defer timer.Stop()
	var seen []byte
	read := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			log.Warn("watching a file failed", "file", file, "error", err)
		case <-w.Events:
			timer.Reset(rest)
		case <-timer.C:
			// Other files of the folder change too, the log perhaps, which
			// would be told of its own writing for ever.
			text, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				log.Warn("watching a file failed", "file", file, "error", err)
				continue
			}
			if read && bytes.Equal(text, seen) {
				continue
			}
			seen, read = text, true
			changed(text)
		}
	}
}
