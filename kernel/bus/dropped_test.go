package bus

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A drop is named in the log and counted under its resource; the log is not flooded.
func TestDropsAreNamed(t *testing.T) {
	var log bytes.Buffer
	b, h := newBus(t, Config{Buffer: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	quick := subscribe(t, b, Options{Key: "/pods/", Recursive: true, After: 1, Buffer: 10, Kind: "pods", Who: func() string { return "quick" }})
	for i := range 3 * logsASecond {
		subscribe(t, b, Options{
			Key: "/pods/", Recursive: true, After: 1, Kind: "pods", Who: func() string { return fmt.Sprintf("reader-%d", i) },
		})
	}
	nameless := subscribe(t, b, Options{Key: "/nodes/", Recursive: true, After: 1, Kind: "nodes"})
	h.commit("/pods/a", "/pods/b", "/nodes/a", "/nodes/b")
	deadline := t.Context()
	for b.Stats().Drops < 3*logsASecond+1 && deadline.Err() == nil {
	}
	if _, err := quick.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.dropped.byKind(); got["pods"] != 3*logsASecond || got["nodes"] != 1 || len(got) != 2 {
		t.Errorf("counted %v", got)
	}
	if n := testutil.CollectAndCount(b.Collector(), "pintle_bus_drops_by_resource_total"); n != 2 {
		t.Errorf("%d series", n)
	}
	// The seconds may have changed in between.
	text := log.String()
	if n := strings.Count(text, "\n"); n < logsASecond || n > 2*logsASecond {
		t.Errorf("%d lines:\n%s", n, text)
	}
	if !strings.Contains(text, "who=reader-") || !strings.Contains(text, "key=/pods/") || strings.Contains(text, "quick") {
		t.Errorf("log:\n%s", text)
	}
	h.mu.Lock()
	h.compacted = 5
	h.mu.Unlock()
	b.recentMu.Lock()
	b.recent.init(1, 1, 5)
	b.recentMu.Unlock()
	var err error
	for err == nil {
		_, _, err = nameless.Take()
	}
	if got := b.dropped.byKind()["nodes"]; got != 2 {
		t.Errorf("%v: counted %d", err, got)
	}
}

// Kinds without end are counted together.
func TestDropsOfManyKinds(t *testing.T) {
	var d dropped
	for i := range 2 * maxKinds {
		d.note(slog.New(slog.DiscardHandler), &Subscription{options: Options{Kind: fmt.Sprint(i)}}, "dropped")
	}
	if got := d.byKind(); len(got) != maxKinds+1 || got[otherKind] != maxKinds {
		t.Errorf("%d kinds, %d others", len(got), got[otherKind])
	}
}
