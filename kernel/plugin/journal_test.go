package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/output"
)

func testJournal(t *testing.T, level slog.Level) (h *Host, log, words *slog.Logger, out *bytes.Buffer) {
	t.Helper()
	out = &bytes.Buffer{}
	h = &Host{log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})), plan: &plan{}}
	b := &manifest.Bundle{Manifest: &manifest.Manifest{Name: "b", Version: "1.2.3", Plugins: []manifest.Entry{{Name: "one"}, {Name: "two"}}}}
	h.plan.units = []*unit{{bundle: b}}
	log, words = h.loggers(b, output.NewBudget())
	return h, log, words, out
}

func logsOf(t *testing.T, h *Host, name string, tail int) (list []LogRecord) {
	t.Helper()
	err := h.Logs(t.Context(), name, LogOptions{Tail: tail}, func(line []byte) error {
		var r LogRecord
		if err := json.Unmarshal(line, &r); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		list = append(list, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func messages(list []LogRecord) (out []string) {
	for _, r := range list {
		out = append(out, r.Message)
	}
	return out
}

// TestLogs: what a bundle writes and what the host says of it is kept with
// level, attributes, version and who said it, also what the kernel's log leaves
// out; a plugin has its own and those that are nobody's in particular.
func TestLogs(t *testing.T) {
	h, log, words, out := testJournal(t, slog.LevelWarn)
	log.Info("ready", "took", "3ms")
	log.Debug("chatter")
	words.With("controller", "one").Warn("slow", "error", errors.New("no answer"), slog.Group("at", "node", "n1"))
	words.Info("about two", "name", "two")
	words.Info("about a pod", "name", "web-0")

	if got, want := messages(logsOf(t, h, "b", -1)), []string{"ready", "slow", "about two", "about a pod"}; !slices.Equal(got, want) {
		t.Errorf("bundle: %q, want %q", got, want)
	}
	if got, want := messages(logsOf(t, h, "one", -1)), []string{"ready", "slow", "about a pod"}; !slices.Equal(got, want) {
		t.Errorf("plugin: %q, want %q", got, want)
	}
	if got, want := messages(logsOf(t, h, "two", 2)), []string{"about two", "about a pod"}; !slices.Equal(got, want) {
		t.Errorf("tail of a plugin: %q, want %q", got, want)
	}
	if got := logsOf(t, h, "b", 0); len(got) != 0 {
		t.Errorf("tail 0: %v", got)
	}
	slow := logsOf(t, h, "one", -1)[1]
	if slow.Level != "WARN" || slow.Source != "plugin" || slow.Version != "1.2.3" || slow.Time.IsZero() ||
		fmt.Sprint(slow.Attributes) != "map[at:map[node:n1] controller:one error:no answer]" {
		t.Errorf("record: %+v", slow)
	}
	if first := logsOf(t, h, "b", -1)[0]; first.Source != "host" || first.Attributes["took"] != "3ms" {
		t.Errorf("record of the host: %+v", first)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=WARN msg=slow plugin=b controller=one error="no answer" at.node=n1`) {
		t.Errorf("the kernel's log:\n%s", got)
	}
	if err := h.Logs(t.Context(), "nobody", LogOptions{}, nil); !errors.Is(err, ErrNoPlugin) {
		t.Errorf("logs of nobody: %v", err)
	}
}

// TestLogsAreBounded in lines and in bytes, and one record too.
func TestLogsAreBounded(t *testing.T) {
	h, log, _, _ := testJournal(t, slog.LevelError)
	for i := range journalLines + 10 {
		log.Info(fmt.Sprint(i))
	}
	if got := logsOf(t, h, "b", -1); len(got) != journalLines || got[0].Message != "10" {
		t.Errorf("%d records are kept, the first is %s", len(got), got[0].Message)
	}
	for range 200 {
		log.Info("large", "stack", strings.Repeat("\x01", 100<<10))
	}
	j := h.journals.of("b")
	if j.bytes > journalBytes || len(j.lines) < 2 {
		t.Errorf("%d bytes in %d records are kept", j.bytes, len(j.lines))
	}
	got := logsOf(t, h, "b", 1)[0]
	if got.Message != "large" || len(fmt.Sprint(got.Attributes["stack"])) > cutText+3 {
		t.Errorf("a record is cut to %d bytes", len(fmt.Sprint(got.Attributes["stack"])))
	}
}

// TestLogsFollow: those that come are handed out as they come, and who reads too
// slowly is told.
func TestLogsFollow(t *testing.T) {
	h, log, _, _ := testJournal(t, slog.LevelError)
	log.Info("past")
	ctx, cancel := context.WithCancel(t.Context())
	lines, done := make(chan LogRecord), make(chan error)
	go func() {
		done <- h.Logs(ctx, "b", LogOptions{Tail: 1, Follow: true}, func(line []byte) error {
			var r LogRecord
			err := json.Unmarshal(line, &r)
			lines <- r
			return err
		})
	}()
	if r := <-lines; r.Message != "past" {
		t.Errorf("first: %+v", r)
	}
	log.Info("one")
	if r := <-lines; r.Message != "one" {
		t.Errorf("second: %+v", r)
	}
	for i := range 3*journalLines + 1 {
		log.Info(fmt.Sprint(i))
	}
	told := false
	for r := range lines {
		if lost, ok := r.Attributes["lost"].(float64); ok && lost > 0 && r.Source == "host" {
			told = true
		}
		if r.Message == fmt.Sprint(3*journalLines) {
			break
		}
	}
	if !told {
		t.Error("nobody was told of records that are gone")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after its end: %v", err)
	}
}
