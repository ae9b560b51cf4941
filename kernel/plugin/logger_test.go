package plugin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
