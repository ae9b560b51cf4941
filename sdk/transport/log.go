//go:build !wasip1

package transport

import (
	"log/slog"
	"os"
	"strings"
)

// stderr is the process's own: serving puts a pipe in the place of os.Stderr
// that nobody reads.
var stderr = os.Stderr

// before is the logger that log/slog begins with.
var before = slog.Default()

// logDefault makes Logger the default of log/slog and log, unless the author chose
// another.
func logDefault() {
	if slog.Default() == before {
		slog.SetDefault(Logger())
	}
}

// Logger returns the logger of a plugin process: JSON lines on standard error
// in the form that the kernel reads back (hclog's keys), so that a record
// keeps its level and attributes under the plugin's name in the kernel's log.
func Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.MessageKey:
				a.Key = "@message"
			case slog.LevelKey:
				return slog.String("@level", strings.ToLower(a.Value.String()))
			case slog.TimeKey:
				return slog.String("@timestamp", a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
			}
			return a
		},
	}))
}
