package plugin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// What a plugin's process writes reaches the kernel's log at its own level;
// what go-plugin tells of itself is for those who debug.
func TestPluginLogger(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	l := pluginLogger(log, log)
	if level := l.GetLevel(); level == hclog.Off || level > hclog.Debug {
		t.Errorf("go-plugin drops records below %s before they are read", level)
	}
	l.Info("own record")
	l.Named("guest").Warn("something is wrong", "key", "value", "timestamp", "now")
	if got := out.String(); strings.Contains(got, "own record") || strings.Contains(got, "timestamp") ||
		!strings.Contains(got, `level=WARN msg="something is wrong" key=value`) {
		t.Errorf("log:\n%s", got)
	}
}
