package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// newLogger writes records to w; the API machinery's go the same way, with
// its chatter at debug level. Once stopping is called all of it is chatter:
// requests and watches that a stop cuts off.
func newLogger(w io.Writer, format string, level *slog.LevelVar) (log *slog.Logger, stopping func()) {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	q := quiet{handler, new(atomic.Bool)}
	klog.SetSlogLogger(slog.New(q).With("part", "machinery"))
	return slog.New(handler), func() { q.stopping.Store(true) }
}

// quiet lowers records of k8s.io's libraries to debug level where they tell
// an operator nothing: everything informational, and what an ordinary end of a
// connection or of the kernel leaves behind.
type quiet struct {
	slog.Handler
	stopping *atomic.Bool
}

// ordinary are messages that the libraries write as errors when a client hangs up.
var ordinary = []string{
	"Error on socket receive",
	"Failed to read frame",
	"error closing",
	"Error proxying data",
	"Server rejected event",
}

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, l) // what is lowered is decided a record
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo || q.stopping.Load() || isOrdinary(r) {
		r.Level = slog.LevelDebug
	}
	if !q.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

func isOrdinary(r slog.Record) bool {
	for _, m := range ordinary {
		if strings.HasPrefix(r.Message, m) {
			return true
		}
	}
	canceled := false
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && (errors.Is(err, context.Canceled) || strings.HasSuffix(err.Error(), "context canceled")) {
			canceled = true
		}
		return !canceled
	})
	return canceled
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.stopping}
}
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.stopping}
}
