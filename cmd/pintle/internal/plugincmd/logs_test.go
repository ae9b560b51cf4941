package plugincmd

import (
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin"
)

// TestRecordText: a record is one line, and nothing that a plugin wrote reaches the terminal as a command.
func TestRecordText(t *testing.T) {
	r := &plugin.LogRecord{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Level: "WARN", Source: "plugin", Version: "0.1.0",
		Message: "disk is full\x1b[2J\nagain", Attributes: map[string]any{"node": "n1", "free": 12.5, "why": "no room", "at": map[string]any{"a": "b"}},
	}
	stamp := r.Time.Local().Format(time.RFC3339)
	want := stamp + ` WARN  plugin "disk is full\x1b[2J\nagain" at={"a":"b"} free=12.5 node=n1 why="no room"` + "\n"
	if got := recordText(r, false); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if got := recordText(r, true); !strings.Contains(got, " plugin 0.1.0 ") {
		t.Errorf("wide: %s", got)
	}
	for _, format := range []string{"json", "yaml"} {
		var out strings.Builder
		write, err := recordWriter(&out, format)
		if err != nil {
			t.Fatal(err)
		}
		if err := write([]byte(`{"message":"m"}`)); err != nil || !strings.Contains(out.String(), "message") {
			t.Errorf("%s: %q, %v", format, out.String(), err)
		}
	}
	if _, err := recordWriter(nil, "xml"); err == nil {
		t.Error("xml is taken")
	}
}
