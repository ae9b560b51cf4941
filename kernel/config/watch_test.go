package config

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("timed out: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestWatch(t *testing.T) {
	src := Source{File: write(t, head+"logging: {level: info}\n")}
	running, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Resolve(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log logBuffer
	applied := make(chan *Config, 4)
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, src, running, slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, c *Config, _ []Change) { applied <- c })
	}()
	replace := func(text string) {
		// Replacing by rename is what editors do.
		tmp := src.File + ".new"
		if err := os.WriteFile(tmp, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, src.File); err != nil {
			t.Fatal(err)
		}
	}
	var got *Config
	level := "debug"
	eventually(t, "a live change is applied", func() bool {
		replace("logging: {level: " + level + "}\n")
		select {
		case got = <-applied:
			return true
		case <-time.After(300 * time.Millisecond):
			return false
		}
	})
	if got.Logging.Level != "debug" {
		t.Errorf("level %q", got.Logging.Level)
	}
	replace("logging: {level: loud}\n")
	eventually(t, "a fault is logged", func() bool { return strings.Contains(log.String(), "is not one of debug") })
	// What else happens in the folder is not told again.
	faults := func() int { return strings.Count(log.String(), "is not one of debug") }
	before := faults()
	for range 3 {
		if err := os.WriteFile(filepath.Join(filepath.Dir(src.File), "log"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("logging: {level: debug}\napi: {port: 7}\n")
	eventually(t, "a key that needs a restart is named", func() bool { return strings.Contains(log.String(), "keys=api.port") })
	<-applied
	if got := faults(); got != before {
		t.Errorf("one fault was logged %d times", got)
	}
	if strings.Contains(log.String(), "dataDir") {
		t.Errorf("a relative path that nobody changed counts as changed: %s", log.String())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
