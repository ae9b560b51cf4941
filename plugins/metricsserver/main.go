package main

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"

	"pintle.dev/pintle/sdk/apiserver"
	"pintle.dev/pintle/sdk/transport"
)

func main() {
	klog.SetSlogLogger(slog.New(machinery{transport.Logger().Handler()}))
	registerMetrics()
	apiserver.Serve(apiserver.Server{Name: "metrics-server", New: New})
}

// machinery is the log of the libraries: what is merely informational is for those who
// debug.
type machinery struct{ slog.Handler }

// Handle implements slog.Handler, as do the others.
func (m machinery) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo {
		r.Level = slog.LevelDebug
		if !m.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return m.Handler.Handle(ctx, r)
}

// WithAttrs adds attributes.
func (m machinery) WithAttrs(attrs []slog.Attr) slog.Handler {
	return machinery{m.Handler.WithAttrs(attrs)}
}

// WithGroup adds a group.
func (m machinery) WithGroup(name string) slog.Handler { return machinery{m.Handler.WithGroup(name)} }
