package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
)

func TestQuiet(t *testing.T) {
	var out strings.Builder
	stopping := new(atomic.Bool)
	log := slog.New(quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}), stopping}).With("part", "machinery")
	log.Info("chatter")
	log.Error("Error on socket receive", "err", errors.New("closed"))
	log.Error("Failed to watch", "err", context.Canceled)
	log.Error("a real fault", "err", errors.New("boom"))
	log.Warn("a warning")
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "a real fault") || !strings.Contains(out.String(), "a warning") {
		t.Errorf("got:\n%s", out.String())
	}
	stopping.Store(true)
	out.Reset()
	log.Error("cut off by the stop", "err", errors.New("http: Handler timeout"))
	if out.Len() != 0 {
		t.Errorf("while stopping: %s", out.String())
	}
}
