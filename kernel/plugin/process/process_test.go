package process

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/kernel/plugin/guest"
)

// What go-plugin tells of itself is for those who debug.
func TestPluginLogger(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		pluginLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))).Error("own record", "key", "value")
		if got := out.String(); strings.Contains(got, `level=DEBUG msg="own record" key=value`) != want || !want && got != "" {
			t.Errorf("log at %s:\n%s", level, got)
		}
	}
}

// TestWritten: a script that others can change is not run.
func TestWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := written(path); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := written(path); !errors.Is(err, guest.ErrPermanent) {
		t.Errorf("writable by all: %v", err)
	}
}

// A question that is too late is so whichever side notices first.
func TestLate(t *testing.T) {
	open, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	over, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want bool
	}{
		"the host":       {over, context.DeadlineExceeded, true},
		"the connection": {open, status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL"), true},
		"the process":    {over, status.Error(codes.Unknown, "it gave up"), true},
		"nobody":         {open, status.Error(codes.Unknown, "plugin panicked"), false},
		"without bounds": {context.Background(), status.Error(codes.Unavailable, "gone"), false},
	} {
		if got := late(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A lost process tells nothing that a terminal obeys.
func TestWordsOfALostProcess(t *testing.T) {
	const evil, clean = "\x1b[31mno\nentry\x00", "\ufffd[31mno entry\ufffd"
	g := &Guest{answers: answers{name: "b"}, runner: &processRunner{}}
	if err := g.failed("filter", errors.New(evil)); !strings.HasSuffix(err.Error(), clean) {
		t.Errorf("%q", err)
	}
}
