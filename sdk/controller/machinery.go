package controller

import (
	"context"
	"log/slog"
)

// machinery is the log of client-go: an error such as a watch that is refused
// is the operator's to see, all that is merely informational is for those who
// debug.
type machinery struct{ slog.Handler }

func (m machinery) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo {
		r.Level = slog.LevelDebug
	}
	return m.Handler.Handle(ctx, r)
}

func (m machinery) WithAttrs(attrs []slog.Attr) slog.Handler {
	return machinery{m.Handler.WithAttrs(attrs)}
}

func (m machinery) WithGroup(name string) slog.Handler { return machinery{m.Handler.WithGroup(name)} }
